package trusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// protect gives a file or directory an access list in the words of Windows' security descriptors (SDDL).
func protect(t *testing.T, path, list string) {
	t.Helper()
	sd, err := windows.SecurityDescriptorFromString(list)
	if err != nil {
		t.Fatal(err)
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		t.Fatal(err)
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, dacl,
		nil); err != nil {
		t.Fatal(err)
	}
}

// TestCheckLists checks write permissions in access control lists. BA are the administrators, SY the system, WD
// everyone, FA all rights, FR to read, FW to write, 0x4 to add a directory, DC (delete child) to remove entries, and IO
// an entry inherited by new files.
func TestCheckLists(t *testing.T) {
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		t.Fatal(err)
	}
	own := "D:P(A;;FA;;;" + me.User.Sid.String() + ")(A;;FA;;;BA)(A;;FA;;;SY)"
	tests := []struct {
		name, dir, file string // access lists
		want            string // part of the error; empty for none
	}{
		{"the user's own", own, own, ""},
		{"others read", own + "(A;;FR;;;WD)", own + "(A;;FR;;;WD)", ""},
		{"others write the file", own, own + "(A;;FW;;;WD)", "can be written by"},
		{"others have all rights to the directory", own + "(A;;FA;;;WD)", own, "can be written by"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			file := filepath.Join(dir, "file")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			protect(t, file, tt.file)
			protect(t, dir, tt.dir)
			err := Check(file)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if other := (*Error)(nil); err != nil && !errors.As(err, &other) {
				t.Errorf("%T, want *Error", err)
			}
		})
	}
}

// TestMasks checks which rights others may have on a parent directory and on the file.
func TestMasks(t *testing.T) {
	for _, tt := range []struct {
		rights        uint32
		onTheWay, own bool // whether others may have them
	}{
		{windows.FILE_GENERIC_READ, true, true},
		{windows.FILE_WRITE_DATA, true, false}, // add a file to the directory
		{windows.FILE_APPEND_DATA, true, false},
		{fileDeleteChild, false, false},
		{windows.DELETE, false, false},
		{windows.WRITE_DAC, false, false},
		{windows.GENERIC_ALL, false, false},
	} {
		if on, own := tt.rights&replace == 0, tt.rights&write == 0; on != tt.onTheWay || own != tt.own {
			t.Errorf("rights %#x: on the way %t, want %t; itself %t, want %t", tt.rights, on, tt.onTheWay, own, tt.own)
		}
	}
}

func TestCheckAbsent(t *testing.T) {
	if err := Check(filepath.Join(t.TempDir(), "no", "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := Check("file"); err == nil || !strings.Contains(err.Error(), "relative path") {
		t.Error(err)
	}
}
