#!/bin/sh
# Stops what runs before its program is removed; an upgrade leaves it running until the new program is there.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now paceline.service paceline-emulators.service
fi
