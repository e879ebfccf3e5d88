#!/bin/sh
# make-env.sh [FILE]: have every secret in .env, and the sample's first day. What has a value there keeps it. Needs
# nothing but sh and the tools that come with it, so that `docker compose up` needs no Python outside of containers.
set -eu
file=${1:-.env}
secrets=$(dirname "$0")/secrets.txt
sample_days=3

random() { # random CHARACTERS COUNT
    LC_ALL=C tr -dc "$1" < /dev/urandom | dd bs=1 count="$2" 2> /dev/null
}

fresh() { # fresh KIND
    case $1 in
        token) random 0-9a-f 64 ;;
        password) random A-Za-z0-9 16 ;;
        user) printf 'root-%s' "$(random 0-9a-f 12)" ;;
        key) printf 'lake%s' "$(random 0-9a-f 16)" ;;
        # 32 bytes in URL-safe base64: its last character has four bits only.
        fernet) printf '%s%s=' "$(random A-Za-z0-9_- 42)" "$(random AEIMQUYcgkosw048 1)" ;;
        *) echo "$secrets: there is no kind $1" >&2; exit 1 ;;
    esac
}

days_ago() { # days_ago COUNT, with GNU's and busybox's date or with BSD's
    then=$(($(date -u +%s) - $1 * 86400))
    date -u -d "@$then" +%Y-%m-%d 2> /dev/null || date -u -r "$then" +%Y-%m-%d
}

has() { # has NAME: itself, or a file that holds it
    grep -Eq "^[[:space:]]*(export[[:space:]]+)?$1(_FILE)?=[[:space:]]*[^[:space:]#]" "$file"
}

put() { # put NAME VALUE: in place of an empty line of that name
    grep -Ev "^[[:space:]]*$1=[[:space:]]*(#.*)?\$" "$file" > "$file.new" || true
    printf '%s=%s\n' "$1" "$2" >> "$file.new"
    mv "$file.new" "$file"
    made=$((made + 1))
}

umask 077
made=0
test -e "$file" || : > "$file"
# A last line without an end would run together with the first one added.
test -z "$(tail -c 1 "$file")" || echo >> "$file"
while read -r setting kind; do
    case $setting in '' | '#'*) continue ;; esac
    name=LAKEHOUSE_$(echo "$setting" | tr a-z A-Z)
    if ! has "$name"; then
        value=$(fresh "$kind")
        put "$name" "$value"
    fi
done < "$secrets"
has LAKEHOUSE_START || put LAKEHOUSE_START "$(days_ago "$sample_days")"
chmod 600 "$file"
echo "$file: $made values made; the others were there."
