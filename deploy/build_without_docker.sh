#!/bin/bash
# Build the image of deploy/Dockerfile where there is no Docker, no registry of images and perhaps no right to make
# namespaces, and try it: debootstrap makes the base, buildah builds by chroot, and `dtree demo` runs in the result.
#
#   apt-get install buildah debootstrap
#   deploy/build_without_docker.sh FOLDER            as root; FOLDER holds base and images, about 2 GB
#
# MIRROR chooses Debian's mirror. SSL_CERT_FILE, where set, is the bundle of authorities that pip trusts while building;
# it is not in the image. To take the image elsewhere:
#   buildah --root FOLDER/images --storage-driver vfs push dtree:0.2.0 docker-archive:dtree.tar
set -euo pipefail

if [ $# -ne 1 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
for program in buildah debootstrap; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is missing: apt-get install buildah debootstrap" >&2
        exit 2
    fi
done
mkdir -p "$1"
folder=$(cd "$1" && pwd)
project=$(cd "$(dirname "$0")/.." && pwd)
tag=dtree:0.2.0
# vfs copies where overlay would share, and works on any file system.
store=(--root "$folder/images" --runroot "$folder/running" --storage-driver vfs)

# Debian 12 has Python 3.11, as the base that the Dockerfile names has; it calls it python3 only.
if [ ! -e "$folder/base/usr/bin/python" ]; then
    rm -rf "$folder/base"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$folder/base" \
        "${MIRROR:-http://deb.debian.org/debian}"
    rm -rf "$folder"/base/var/cache/apt/* "$folder"/base/var/lib/apt/lists/*
    ln -s python3 "$folder/base/usr/bin/python"
fi

if [ -z "$(buildah "${store[@]}" images --quiet --filter reference=localhost/dtree-base)" ]; then
    empty=$(buildah "${store[@]}" from scratch)
    buildah "${store[@]}" add --quiet "$empty" "$folder/base" / >/dev/null
    buildah "${store[@]}" config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$empty"
    buildah "${store[@]}" commit --quiet "$empty" localhost/dtree-base >/dev/null
    buildah "${store[@]}" rm "$empty" >/dev/null
fi

trust=()
if [ -n "${SSL_CERT_FILE:-}" ]; then
    printf '[global]\ncert = /etc/pip-authorities.crt\n' >"$folder/pip.conf"
    trust=(--volume "$SSL_CERT_FILE:/etc/pip-authorities.crt:ro" --volume "$folder/pip.conf:/etc/pip.conf:ro")
fi
buildah "${store[@]}" build --isolation chroot --pull-never --build-arg BASE=localhost/dtree-base \
    "${trust[@]}" --file "$project/deploy/Dockerfile" --tag "$tag" "$project"

container=$(buildah "${store[@]}" from --pull-never "localhost/$tag")
trap 'buildah "${store[@]}" rm "$container" >/dev/null' EXIT
for words in "dtree demo --out /tmp/demo.zarr" "dtree demo --rows 20000 --out /tmp/many.zarr" "id -u"; do
    echo "\$ $words"
    # `buildah run` leaves out the entry point, which every other way of starting the image goes through.
    # shellcheck disable=SC2086 # the words are meant to be split
    buildah "${store[@]}" run --isolation chroot "$container" -- /opt/dtree/deploy/entrypoint.sh $words
done
