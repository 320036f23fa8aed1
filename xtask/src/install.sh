# Installs Debian packages without the servers that they set up and start for their own use. Run as root; the
# arguments are the packages. What was there before stays as it was.
set -eu
export DEBIAN_FRONTEND=noninteractive
etc=${ETC:-/etc} policy=${POLICY:-/usr/sbin/policy-rc.d}
cluster=$etc/postgresql-common/createcluster.d/flowfabric-tests.conf
made_policy=
cleanup() {
    rm -f "$cluster"
    if [ -n "$made_policy" ]; then rm -f "$policy"; fi
}
trap cleanup EXIT
mkdir -p "${cluster%/*}"
echo "create_main_cluster = false" >"$cluster"
if [ ! -e "$policy" ]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get install --yes --no-install-recommends "$@" || {
    apt-get update
    apt-get install --yes --no-install-recommends "$@"
}
for package in "$@"; do
    # Nobody asked for a pooler after the next boot.
    if [ "$package" = pgbouncer ]; then update-rc.d pgbouncer disable || true; fi
done
