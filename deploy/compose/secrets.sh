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
	messaging_serve_password api_jwt_secret console_key pseudonym_key; do
	keep "$own" "$(random)"
done
for service in onboarding messaging; do
	# In a folder from before there were two logins the first stays the owner's: the doctor says how to make the other.
	keep "${service}_database_url" "postgres://${service}_serve:$(cat "$folder/${service}_serve_password")@postgres:5432/$service?sslmode=disable"
	keep "${service}_migrate_url" "postgres://$service:$(cat "$folder/${service}_database_password")@postgres:5432/$service?sslmode=disable"
done
# A signing key for each process that calls others, and the public halves, by which it is believed. operator is yours: it signs your tokens;
# ledger is messaging's, for the anchors of the consent ledgers.
public=
for process in gateway onboarding operator ledger; do
	file=$folder/${process}_signing_key
	[ -s "$file" ] || key=$(openssl genpkey -algorithm ed25519 -outform DER | openssl base64 -A)
	[ -s "$file" ] || printf '%s\n' "$key" >"$file"
	[ "$process" != ledger ] || continue
	half=$(openssl base64 -d -A -in "$file" | openssl pkey -inform DER -pubout -outform DER | openssl base64 -A)
	public=$public${public:+,}$process=$half
done
keep service_public_keys "$public"
keep redis_conf "requirepass $(random)"
keep redis_url "redis://:$(sed -n 's/^requirepass //p' "$folder/redis_conf")@redis:6379/0"

# https://upstash.com/docs/qstash/howto/local-development; the last two are of our Twilio.
vendor qstash_token eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0=
vendor qstash_current_signing_key sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r
vendor qstash_next_signing_key sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs
vendor twilio_auth_token 0123456789abcdef0123456789abcdef
vendor twilio_api_key_secret fedcba9876543210fedcba9876543210

# What all processes shared before they had keys: a folder that has it keeps it, until you empty the file (docs/runbooks/key-rotation.md).
keep service_auth_secret ""

# As long as no organisation stores a sender (docs/organisations.md).
keep sender_keyset ""

# Empty turns the route off, and of the last the console's sign-in by OpenID Connect.
keep kapso_webhook_secret ""
keep shopify_webhook_secret ""
keep oidc_client_secret ""

echo "the secrets are in $folder"
for name in qstash_token qstash_current_signing_key qstash_next_signing_key twilio_auth_token twilio_api_key_secret; do
	[ "$(tr -d ' \n' <"$folder/$name")" ] || echo "fill in $folder/$name"
done
