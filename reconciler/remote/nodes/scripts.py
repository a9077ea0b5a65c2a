"""Scripts that machines over SSH run in ``/bin/sh``."""

from __future__ import annotations

PUT = """
set -e; umask 077; mkdir -p "$(dirname "$1")"; draft="$1.$$.part"; trap 'rm -f "$draft"' EXIT
cat > "$draft"; [ "$(wc -c < "$draft")" -eq "$3" ]; chmod "$2" "$draft"; mv -f "$draft" "$1"
"""
"""Takes the path, the mode and the size in bytes, so that a truncated file is not put in place."""
PRUNE = """
cd "$1" && ls -t | grep '^agent-.*[.]pyz$' | tail -n +"$2" | while read -r old; do rm -f "$old"; done
"""
AUTHORIZED = """
file=$HOME/.ssh/authorized_keys; [ -h "$file" ] && file=$(readlink -f "$file")
echo "$file"; [ ! -e "$file" ] || cat "$file"
"""
"""The file's own path, and its content."""
REBOOT = """
PATH=$PATH:/usr/sbin:/sbin; [ "$(id -u)" = 0 ] && exec shutdown -r now; exec sudo -n shutdown -r now
"""
