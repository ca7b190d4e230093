package trusted

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	fileDeleteChild = 0x40 // FILE_DELETE_CHILD: remove or rename entries of a directory
	// replace are the rights to replace a file, a directory, or an entry of a directory.
	replace = fileDeleteChild | windows.DELETE | windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_ALL
	// write are the rights to change it. For a directory the same bits grant adding files.
	write = replace | windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.FILE_WRITE_EA |
		windows.FILE_WRITE_ATTRIBUTES | windows.GENERIC_WRITE

	accessDeniedCallback = 0xA // ACCESS_DENIED_CALLBACK_ACE_TYPE
	accessDeniedObject   = 0x6 // ACCESS_DENIED_OBJECT_ACE_TYPE
	accessCallback       = 0x9 // ACCESS_ALLOWED_CALLBACK_ACE_TYPE, which begins like ACCESS_ALLOWED_ACE
)

// trustedSIDs are the accounts besides the user that may write: the administrators, the system, its installer, and the
// placeholders for a file's creator and owner.
var trustedSIDs = []string{"S-1-5-32-544", "S-1-5-18",
	"S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464", "S-1-3-0", "S-1-3-4"}

// checkOne checks the owner and the access list of one file, directory or link. onTheWay means that the path continues
// below it: then others may add files, as in the root directory of most systems.
func checkOne(path string, onTheWay bool) error {
	sd, err := security(path)
	if err != nil {
		return err
	}
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return fmt.Errorf("who runs this program is not known: %w", err)
	}
	ours := func(sid *windows.SID) bool {
		return sid.Equals(me.User.Sid) || slices.Contains(trustedSIDs, sid.String())
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return fmt.Errorf("the owner of %q is not known: %w", path, err)
	}
	if !ours(owner) {
		return &Error{path, fmt.Sprintf("belongs to %s, and neither to you nor to the administrators", name(owner)),
			fmt.Sprintf("takeown /F %q", path)}
	}
	list, _, err := sd.DACL()
	if err != nil || list == nil { // no list is no limit
		return &Error{path, "can be written by others (it has no access list)", "use a folder of your profile"}
	}
	rights := windows.ACCESS_MASK(write)
	if onTheWay {
		rights = replace
	}
	for i := range list.AceCount {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, uint32(i), &entry); err != nil {
			return fmt.Errorf("who may write %q is not known: %w", path, err)
		}
		switch {
		case entry.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0: // it applies only to new entries of the directory
			continue
		case entry.Mask&rights == 0:
			continue
		}
		switch entry.Header.AceType {
		case windows.ACCESS_DENIED_ACE_TYPE, accessDeniedCallback, accessDeniedObject:
			continue
		case windows.ACCESS_ALLOWED_ACE_TYPE, accessCallback:
			if sid := (*windows.SID)(unsafe.Pointer(&entry.SidStart)); !ours(sid) {
				return &Error{path, fmt.Sprintf("can be written by %s", name(sid)),
					fmt.Sprintf("use a folder of your profile, or: icacls %q /inheritance:d, and then "+
						"icacls %q /remove:g *%s", path, path, sid)}
			}
		default:
			return &Error{path, fmt.Sprintf("has an access list with an entry of type %d", entry.Header.AceType),
				"use a folder of your profile"}
		}
	}
	return nil
}

// security reads the owner and the access list of a file, directory or link. For a link it reads the link's own.
func security(path string) (*windows.SECURITY_DESCRIPTOR, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	h, err := windows.CreateFile(p, windows.READ_CONTROL,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	defer windows.CloseHandle(h)
	sd, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, fmt.Errorf("who may write %q is not known: %w", path, err)
	}
	return sd, nil
}

// name returns the account name of a user or group.
func name(sid *windows.SID) string {
	account, domain, _, err := sid.LookupAccount("")
	if err != nil {
		return sid.String()
	}
	if domain == "" {
		return account
	}
	return domain + `\` + account
}
