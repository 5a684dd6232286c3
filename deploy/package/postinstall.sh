#!/bin/sh
# Makes the user that the units run as. At an install nothing is started: paceline init comes first. At an upgrade what runs is started
# anew, and brings the schemas up to date.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers paceline.conf
elif ! getent passwd paceline >/dev/null; then
	useradd --system --no-create-home --shell /usr/sbin/nologin paceline
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ "$1" = configure ] && [ -n "$2" ]; then
		deb-systemd-invoke try-restart paceline-emulators.service paceline.service || true # the journal says why
	fi
fi
