#!/bin/sh
# At the first start make a cluster with POSTGRES_PASSWORD and POSTGRES_INITDB_ARGS, open to the network by password.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    umask 077
    mkdir -p "$PGDATA"
    printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
    # shellcheck disable=SC2086  these are several arguments
    initdb -D "$PGDATA" -U postgres --pwfile=/tmp/password ${POSTGRES_INITDB_ARGS:-}
    rm /tmp/password
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
fi
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/tmp
