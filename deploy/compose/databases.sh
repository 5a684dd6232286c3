#!/bin/sh
# Gives each service its database and its roles, as the image of Postgres runs it once, on an empty volume. The passwords are
# secrets that are mounted. For a server of your own: docs/deploy.md says what an administrator runs instead.
#
# Of the two logins of a service one owns its database and migrates, the other serves and owns nothing, so that it cannot rewrite what is
# evidence (docs/adr/0049). Both have the rights of the worker, and take on the tenant for what operators and users ask (docs/adr/0015).
set -eu
secrets=${SECRETS:-/run/secrets}

for service in onboarding messaging; do
	for login in database serve; do
		[ "$(cat "$secrets/${service}_${login}_password")" ] || { echo "$secrets/${service}_${login}_password is empty" >&2; exit 1; }
	done
	# By its standard input, so that no list of processes shows the password.
	psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<-SQL
		\set service $service
		\set tenant ${service}_tenant
		\set worker ${service}_worker
		\set serve ${service}_serve
		\set password $(cat "$secrets/${service}_database_password")
		\set serve_password $(cat "$secrets/${service}_serve_password")
		create role :"service" login nosuperuser nocreatedb nocreaterole password :'password';
		create role :"serve" login nosuperuser nocreatedb nocreaterole password :'serve_password';
		create role :"tenant" nologin;
		create role :"worker" nologin;
		grant :"tenant", :"worker" to :"service", :"serve";
		create database :"service" owner :"service";
		revoke all on database :"service", postgres, template1 from public;
		grant connect on database :"service" to :"serve";
		\connect :"service"
		revoke all on schema public from public;
		grant all on schema public to :"service";
	SQL
done
