#!/bin/sh
# Makes the secrets of compose.yaml, one file each, in ./secrets (or the folder that SECRETS names). A secret that is there already
# is kept, so running it again is harmless.
#
#   ./secrets.sh emulated   the vendors' are the published ones of the emulators
#   ./secrets.sh real       the vendors' are made empty: put yours into them, for nothing starts without
#
# Compose mounts these files as they are, with the owner and mode that they have here, and the processes are not root: so each file
# can be read by all users, and only you can enter the folder around them.
set -eu
umask 022

case "${1:-}" in
emulated | real) vendors=$1 ;;
*) echo "usage: $0 emulated | real" >&2; exit 2 ;;
esac
folder=${SECRETS:-$(dirname "$0")/secrets}
mkdir -p "$folder"
chmod 700 "$folder"

# keep NAME VALUE
keep() {
	[ -e "$folder/$1" ] || printf '%s\n' "$2" >"$folder/$1"
}

# random prints 64 hexadecimal digits: fit for URLs, for a file of Redis and for SQL as they are.
random() {
	od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

# vendor NAME PUBLISHED
vendor() {
	if [ "$vendors" = emulated ]; then
		keep "$1" "$2"
		return
	fi
	keep "$1" ""
	if [ "$(tr -d ' \n' <"$folder/$1")" = "$2" ]; then
		echo "$folder/$1 is the emulators', which is public: remove $folder and begin anew, or put yours there" >&2
		exit 1
	fi
}

for own in postgres_password onboarding_database_password messaging_database_password onboarding_serve_password \
	messaging_serve_password service_auth_secret api_jwt_secret console_key; do
	keep "$own" "$(random)"
done
for service in onboarding messaging; do
	# In a folder from before there were two logins the first stays the owner's: the doctor says how to make the other.
	keep "${service}_database_url" "postgres://${service}_serve:$(cat "$folder/${service}_serve_password")@postgres:5432/$service?sslmode=disable"
	keep "${service}_migrate_url" "postgres://$service:$(cat "$folder/${service}_database_password")@postgres:5432/$service?sslmode=disable"
done
keep redis_conf "requirepass $(random)"
keep redis_url "redis://:$(sed -n 's/^requirepass //p' "$folder/redis_conf")@redis:6379/0"

# https://upstash.com/docs/qstash/howto/local-development; the last is of our Twilio.
vendor qstash_token eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0=
vendor qstash_current_signing_key sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r
vendor qstash_next_signing_key sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs
vendor twilio_auth_token 0123456789abcdef0123456789abcdef

# Empty turns the route off, and of the last the console's sign-in by OpenID Connect.
keep kapso_webhook_secret ""
keep shopify_webhook_secret ""
keep oidc_client_secret ""

echo "the secrets are in $folder"
for name in qstash_token qstash_current_signing_key qstash_next_signing_key twilio_auth_token; do
	[ "$(tr -d ' \n' <"$folder/$name")" ] || echo "fill in $folder/$name"
done
