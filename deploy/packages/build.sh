#!/bin/sh
# Makes a Debian or RPM package that holds everything: environment, unit, drop-in, configuration. No network at install or start.
#
#   build.sh deb|rpm [FOLDER]     writes into FOLDER (default: dist)
#
# ENVIRONMENT= a folder that environment.sh made before; else it is called, with its variables
# VERSION=     default: the one of collector/version.py
# A package is of the architecture and the distribution it was made on: x86-64 and arm64 (Grace) alike.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
kind=${1:-}
folder=${2:-dist}
version=${VERSION:-$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' "$top/collector/version.py")}
# One time for all files: of the last change, unless the caller sets another.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
if [ -n "${ENVIRONMENT:-}" ]; then
  mkdir -p "$tree/opt"
  cp -a "$ENVIRONMENT" "$tree/opt/tocsin"
else
  "$here/environment.sh" "$tree"
fi

put() { install -D -m 644 "$1" "$tree$2"; }
put "$top/deploy/systemd/tocsin.service" /usr/lib/systemd/system/tocsin.service
put "$top/deploy/systemd/tocsin-gateway.service" /usr/lib/systemd/system/tocsin-gateway.service
put "$top/deploy/systemd/sysusers.conf" /usr/lib/sysusers.d/tocsin.conf
put "$top/deploy/systemd/tocsin-helper.service" /usr/lib/systemd/system/tocsin-helper.service
for profile in tocsin-full tocsin-helper-namespaces tocsin-joblogs tocsin-perfquery; do
  put "$top/deploy/systemd/$profile.conf" "/opt/tocsin/share/$profile.conf"
done
put "$top/docs/install.md" /opt/tocsin/share/install.md
put "$top/LICENSE" /opt/tocsin/share/LICENSE
put "$here/config.yaml" /etc/tocsin/config.yaml
put "$here/gateway.yaml" /etc/tocsin/gateway.yaml
# For schedulers: programs that Slurm and node-problem-detector call, and the timer of docs/integrations.md, which is enabled by hand only.
for program in slurm/tocsin-health slurm/tocsin-prolog slurm/tocsin-epilog slurm/tocsin-gates slurm/tocsin-preflight npd/tocsin-npd; do
  install -D -m 755 "$top/deploy/$program" "$tree/usr/libexec/tocsin/$(basename "$program")"
done
put "$top/deploy/slurm/tocsin-return.service" /usr/lib/systemd/system/tocsin-return.service
put "$top/deploy/slurm/tocsin-return.timer" /usr/lib/systemd/system/tocsin-return.timer
put "$top/deploy/slurm/tocsin-repair.service" /usr/lib/systemd/system/tocsin-repair.service
put "$top/deploy/slurm/tocsin-repair.timer" /usr/lib/systemd/system/tocsin-repair.timer
put "$top/deploy/slurm/tocsin.nhc" /opt/tocsin/share/tocsin.nhc
put "$top/deploy/npd/tocsin-gpu-monitor.json" /opt/tocsin/share/tocsin-gpu-monitor.json
put "$tree/opt/tocsin/share/tocsin.1" /usr/share/man/man1/tocsin.1
gzip -9n "$tree/usr/share/man/man1/tocsin.1"
put "$tree/opt/tocsin/share/completion.bash" /usr/share/bash-completion/completions/tocsin
put "$tree/opt/tocsin/share/completion.fish" /usr/share/fish/vendor_completions.d/tocsin.fish
zsh() { put "$tree/opt/tocsin/share/completion.zsh" "/usr/share/zsh/$1/_tocsin"; }
mkdir -p "$tree/usr/bin"
ln -s /opt/tocsin/bin/tocsin "$tree/usr/bin/tocsin"

# The interpreter is the distribution's own, unless one was taken along.
interpreter=$(readlink "$tree/opt/tocsin/bin/python")
case $interpreter in
  /usr/bin/*) needs=$(basename "$interpreter") ;;
  *) needs= ;;
esac

deb() {
  put "$top/LICENSE" /usr/share/doc/tocsin/copyright
  zsh vendor-completions
  mkdir "$tree/DEBIAN"
  for script in postinst prerm postrm; do install -m 755 "$here/debian/$script" "$tree/DEBIAN/$script"; done
  printf '/etc/tocsin/%s.yaml\n' config gateway >"$tree/DEBIAN/conffiles"
  cat >"$tree/DEBIAN/control" <<CONTROL
Package: tocsin
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: Tocsin <tocsin@localhost>
Section: admin
Priority: optional
Depends: systemd (>= 245)${needs:+, $needs}
Recommends: infiniband-diags
Installed-Size: $(du -ks --apparent-size "$tree" | cut -f1)
Description: early warning for GPU clusters
 Reads GPUs, InfiniBand ports and the kernel log of a node, keeps what it
 read, and names the root cause: one GPU, port or rank. Serves
 Prometheus on port 9400, in the place of dcgm-exporter.
CONTROL
  dpkg-deb --root-owner-group -Z "${COMPRESSION:-zstd}" --build "$tree" "$folder/tocsin_${version}_$(dpkg --print-architecture).deb"
}

rpm() {
  zsh site-functions
  work=$(mktemp -d)
  trap 'rm -rf "$tree" "$work"' EXIT
  [ -z "$needs" ] || set -- --define "needs $needs"
  rpmbuild -bb --quiet "$@" --define "_topdir $work" --define "_rpmdir $(cd "$folder" && pwd)" --define "tree $tree" \
    --define "tocsin_version $version" --define "use_source_date_epoch_as_buildtime 1" \
    --define "clamp_mtime_to_source_date_epoch 1" --define "_buildhost localhost" "$here/tocsin.spec"
}

mkdir -p "$folder"
case $kind in
  deb) deb ;;
  rpm) rpm ;;
  *) echo "usage: build.sh deb|rpm [FOLDER]" >&2; exit 2 ;;
esac
