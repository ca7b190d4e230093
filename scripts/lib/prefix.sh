# shellcheck shell=sh
# Private prefixes under .tools/: programs of a newer Debian suite than the machine's, each with its
# own C library and loader, so that nothing of the system is replaced. Sourced by scripts/setup.
#
# A prefix is built and probed in a scratch folder and renamed into place last, so an interrupted
# install leaves nothing behind that a later run would trust. Nothing in it holds an absolute path:
# the checkout may be moved.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# debian_mirror prints the Debian mirror to use: VKC_DEBIAN_MIRROR, or on Debian the one apt is
# set up with. Only an entry for the running release counts, so third-party lists are passed over.
debian_mirror() {
	if [ -n "${VKC_DEBIAN_MIRROR:-}" ]; then
		printf '%s\n' "$VKC_DEBIAN_MIRROR"
		return
	fi
	[ "$(os_field ID)" = debian ] || return 1
	code=$(os_field VERSION_CODENAME)
	apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' |
		awk -v code="${code:-sid}" '
			$2 == "main" && ($1 == code || $1 ~ /^(oldstable|stable|testing|unstable|sid)$/) { print $3; exit }' |
		grep .
}

os_field() { (. /etc/os-release && eval "printf '%s\n' \"\${$1:-}\""); }

# unpack DIR SUITES PACKAGE...: unpacks the packages, and all they depend on, from the given Debian
# suites (a space-separated list; the last is preferred) into DIR. $arch, if it is set, is of another machine. apt gets
# folders of its own for all it keeps: the system's lists, locks and pins play no part, and no root rights are needed.
unpack() {
	dir=$1 suites=$2
	shift 2
	apt=$scratch/apt
	rm -rf "$apt"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/preferences.d" "$dir"
	for suite in $suites; do
		echo "deb [signed-by=$keyring] $mirror $suite main"
	done >"$apt/sources.list"
	: >"$apt/status"
	# The hooks are cleared because container images use them to empty the system's archive folder.
	cat >"$apt/apt.conf" <<-CONF
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear DPkg::Post-Invoke;
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::Etc::preferences "-";
		Dir::Etc::preferencesparts "$apt/preferences.d";
		Dir::State "$apt";
		Dir::State::Lists "$apt/lists";
		Dir::State::status "$apt/status";
		Dir::Cache "$apt/cache";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Acquire::Retries "3";
		APT::Sandbox::User "$(id -un)";
		APT::Install-Recommends "false";
		${arch:+APT::Architecture "$arch"; APT::Architectures "$arch";}
	CONF
	{
		apt-get -q -c "$apt/apt.conf" update &&
			apt-get -q -y -c "$apt/apt.conf" -t "${suites##* }" --download-only install "$@"
	} >"$scratch/log" 2>&1 || return 1
	for deb in "$apt"/cache/archives/*.deb; do
		dpkg -x "$deb" "$dir" || return 1
	done
	# docs, translations and character sets of the closure: a fifth of the files, used by nothing here
	rm -rf "$dir"/usr/share/doc "$dir"/usr/share/man "$dir"/usr/share/locale "$dir"/usr/share/info \
		"$dir"/usr/share/lintian "$dir"/usr/share/X11 "$dir"/usr/lib/*/gconv "$dir"/var
	for deb in "$apt"/cache/archives/*.deb; do
		basename "$deb" .deb
	done | sed 's/%3a/:/; s/^/package /' >"$dir/.packages"
}

# unpack_file DIR PACKAGE FILE: unpacks one file of a package, without what the package depends on, into DIR. It
# takes the suites of the unpack before it.
unpack_file() {
	mkdir -p "$scratch/one"
	(cd "$scratch/one" && apt-get -q -c "$apt/apt.conf" download "$2" && dpkg --fsys-tarfile "$2"_*.deb | tar -x -C "$1" "$3") \
		>"$scratch/log" 2>&1 || return 1
	basename "$scratch/one/$2"_*.deb .deb | sed 's/%3a/:/; s/^/package /' >>"$1/.packages"
	rm -r "$scratch/one"
}

# private_libc DIR: names the unpacked C library's loader DIR/ld.so and its library folder DIR/lib.
private_libc() {
	ldso=$(cd "$1" && find usr/lib -name 'ld-linux*.so.*' -type f | head -n 1)
	libc=$(cd "$1" && find usr/lib -name libc.so.6 | head -n 1)
	[ -n "$ldso" ] && [ -n "$libc" ] || return 1
	ln -s "$ldso" "$1/ld.so" && ln -s "${libc%/*}" "$1/lib"
}

# install_prefix NAME RECIPE BUILD SUITES...: makes .tools/NAME with the first of the suite lists for
# which `BUILD DIR SUITES` (which ends in its own probe) succeeds. RECIPE changes when the steps do.
install_prefix() {
	name=$1 recipe=$2 build=$3
	shift 3
	for try; do
		say "installing $name of Debian $try into .tools/$name (the system is left alone)"
		new=$tools/.new-$$-$name
		: >"$scratch/log"
		if "$build" "$new" "$try"; then
			{ echo "$recipe"; echo "suites $try"; cat "$new/.packages"; } >"$new/.done"
			rm -rf "${tools:?}/$name" "$new/.packages"
			mv "$new" "$tools/$name"
			say "installed .tools/$name: $(du -sh "$tools/$name" | cut -f 1)"
			return
		fi
		say "Debian $try did not do for $name; the last lines of the log:"
		tail -n 5 "$scratch/log" | sed 's/^/    /'
		rm -rf "$new"
	done
	return 1
}

# prefix_done NAME RECIPE: whether .tools/NAME was made by this recipe.
prefix_done() {
	[ -f "$tools/$1/.done" ] && read -r made <"$tools/$1/.done" && [ "$made" = "$2" ]
}
