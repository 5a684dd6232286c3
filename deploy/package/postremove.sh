#!/bin/sh
# Also a purge keeps /etc/paceline and /var/lib/paceline: no one can make the pseudonym key and the anchors of the ledgers again.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ] && [ -e /etc/paceline/paceline.env ]; then
	echo "paceline: /etc/paceline, /var/lib/paceline and the databases are kept; remove them yourself"
fi
