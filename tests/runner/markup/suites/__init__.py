"""What others wrote to test their own parsers: texts of models, and what is expected of them. ``test_suites.py`` reads them all."""
