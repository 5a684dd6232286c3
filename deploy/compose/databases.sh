#!/bin/sh
# Gives each service its database and its roles, as the image of Postgres runs it once, on an empty volume. The passwords are
# secrets that are mounted. For a server of your own: docs/deployment.md says what an administrator runs instead.
#
# The role that a service logs in as owns its database and nothing else. It has the rights of the worker, and takes on the tenant for what
# operators and users ask (docs/adr/0025).
set -eu
secrets=${SECRETS:-/run/secrets}

for service in onboarding messaging; do
	password=$(cat "$secrets/${service}_database_password")
	[ "$password" ] || { echo "$secrets/${service}_database_password is empty" >&2; exit 1; }
	# By its standard input, so that no list of processes shows the password.
	psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<-SQL
		\set service $service
		\set tenant ${service}_tenant
		\set worker ${service}_worker
		\set password $password
		create role :"service" login nosuperuser nocreatedb nocreaterole password :'password';
		create role :"tenant" nologin;
		create role :"worker" nologin;
		grant :"tenant", :"worker" to :"service";
		create database :"service" owner :"service";
		revoke all on database :"service", postgres, template1 from public;
		\connect :"service"
		revoke all on schema public from public;
		grant all on schema public to :"service";
	SQL
done
