//go:build unix

package trusted

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// checkOne returns an error if others can change one file, directory or link. onTheWay means that the path continues
// below it.
func checkOne(path string, onTheWay bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %q is not known", path)
	}
	if me := os.Geteuid(); stat.Uid != 0 && int(stat.Uid) != me {
		why := fmt.Sprintf("belongs to user %d, and neither to you (user %d) nor to root", stat.Uid, me)
		return &Error{path, why, fmt.Sprintf("run as user %d, or chown it", stat.Uid)}
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil // links have no modes
	}
	if onTheWay && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	if info.Mode().Perm()&0o002 != 0 || info.Mode().Perm()&0o020 != 0 && !privateGroup(stat.Gid) {
		return &Error{path, fmt.Sprintf("can be written by others (%v)", info.Mode()),
			fmt.Sprintf("chmod go-w %q", path)}
	}
	return nil
}

// privateGroup reports whether a group is the user's own: the one of the same name that most Linux systems make for
// each user, with no other members. Such users often work with umask 002, so that all their files are group-writable.
func privateGroup(gid uint32) bool {
	me, err := user.Current()
	if err != nil || me.Gid != strconv.FormatUint(uint64(gid), 10) {
		return false
	}
	group, err := user.LookupGroupId(me.Gid)
	return err == nil && group.Name == me.Username
}
