"""What takes root to try: real sudo with the lines that the product prints, and real nftables with its rules."""
