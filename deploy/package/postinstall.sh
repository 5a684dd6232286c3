#!/bin/sh
# Makes the user that the units run as. Nothing is started: paceline init comes first.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers paceline.conf
elif ! getent passwd paceline >/dev/null; then
	useradd --system --no-create-home --shell /usr/sbin/nologin paceline
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
