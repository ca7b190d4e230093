package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vkc-go/vkc/generate"
)

// slotted is a model with slots that can be saved, such as a [generate.Model].
type slotted interface {
	Slots() []generate.SlotInfo
	SaveSlot(ctx context.Context, index int, w io.Writer) (tokens int, err error)
	RestoreSlot(ctx context.Context, index int, r io.Reader) (tokens int, err error)
	EraseSlot(ctx context.Context, index int) (tokens int, err error)
}

// slots answers GET /slots: the parts of the KV cache, each for one answer at a time.
func (s *Server) slots(w http.ResponseWriter, _ *http.Request) error {
	list := []any{}
	if m, ok := s.model.(slotted); ok {
		for i, slot := range m.Slots() {
			list = append(list, map[string]any{"id": i, "n_ctx": s.model.Context(), "is_processing": slot.Busy,
				"n_tokens": slot.Tokens})
		}
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// slotRequest is the JSON of POST /slots/{id}.
type slotRequest struct {
	Name string `json:"filename"`
}

// changeSlot answers POST /slots/{id}?action=save, restore or erase. Files are in the directory Options.Slots.
func (s *Server) changeSlot(w http.ResponseWriter, r *http.Request) error {
	m, ok := s.model.(slotted)
	id, err := strconv.Atoi(r.PathValue("id"))
	action := r.URL.Query().Get("action")
	switch {
	case !ok:
		return refuse(http.StatusNotImplemented, "", "model %q has no slots", s.o.Name)
	case err != nil || id < 0 || id >= len(m.Slots()):
		return refuse(http.StatusBadRequest, "id", "there is no slot %q: want 0 to %d", r.PathValue("id"),
			len(m.Slots())-1)
	case action != "save" && action != "restore" && action != "erase":
		return refuse(http.StatusBadRequest, "action", "action is %q: want save, restore or erase", action)
	}
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	if action != "erase" {
		return s.fileSlot(ctx, w, r, m, id, action == "restore")
	}
	n, err := m.EraseSlot(ctx, id)
	if err != nil {
		return slotError(ctx, err)
	}
	writeJSON(w, http.StatusOK, map[string]any{"id_slot": id, "n_erased": n})
	return nil
}

// fileSlot saves slot id to the file that a request names, or restores it from there.
func (s *Server) fileSlot(ctx context.Context, w http.ResponseWriter, r *http.Request, m slotted, id int,
	restore bool) error {
	var q slotRequest
	if _, err := readJSON(r, &q); err != nil {
		return err
	}
	switch {
	case s.o.Slots == "":
		return refuse(http.StatusNotImplemented, "",
			"the server saves no slots: start it with --slot-save-path DIRECTORY")
	case !isFileName(q.Name):
		return refuse(http.StatusBadRequest, "filename", "filename is %.80q: want a name of letters, digits, '.', '-' "+
			"and '_' that does not begin with '.', of at most %d characters", q.Name, maxFileName)
	}
	directory, err := os.OpenRoot(s.o.Slots) // no name and no link leads out of it
	if err != nil {
		return fmt.Errorf("the directory of slots: %w", err)
	}
	defer directory.Close()
	began := time.Now()
	do, tokensField, sizeField, timeField := saveSlot, "n_saved", "n_written", "save_ms"
	if restore {
		do, tokensField, sizeField, timeField = restoreSlot, "n_restored", "n_read", "restore_ms"
	}
	tokens, size, err := do(ctx, m, id, directory, q.Name)
	if err != nil {
		return slotError(ctx, err)
	}
	writeJSON(w, http.StatusOK, map[string]any{"id_slot": id, "filename": q.Name, tokensField: tokens, sizeField: size,
		"timings": map[string]any{timeField: float64(time.Since(began)) / float64(time.Millisecond)}})
	return nil
}

// saveSlot writes slot id to a hidden file, and then renames it to name, so that there is never a file with a part of a
// slot.
func saveSlot(ctx context.Context, m slotted, id int, directory *os.Root, name string) (tokens int, size int64,
	err error) {
	partial := "." + name + "." + newID("part")
	file, err := directory.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if err != nil {
			directory.Remove(partial)
		}
	}()
	tokens, err = m.SaveSlot(ctx, id, file)
	if err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, 0, err
	}
	return tokens, size, directory.Rename(partial, name)
}

// restoreSlot reads slot id from a file. It refuses anything but regular files, because a request gives the name.
func restoreSlot(ctx context.Context, m slotted, id int, directory *os.Root, name string) (tokens int, size int64,
	err error) {
	info, err := directory.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular():
		return 0, 0, refuse(http.StatusNotFound, "filename", "there is no saved slot %q", name)
	case err != nil:
		return 0, 0, err
	}
	file, err := directory.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	tokens, err = m.RestoreSlot(ctx, id, file)
	return tokens, info.Size(), err
}

// slotError converts an error of a slot. A file or slot that does not fit is the client's error.
func slotError(ctx context.Context, err error) error {
	var wrong *generate.SlotError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &wrong):
		return refuse(http.StatusBadRequest, "", "%v", wrong)
	}
	return err
}

// maxFileName bounds the name of a slot's file.
const maxFileName = 100

// isFileName reports whether a client may name a file so. Every file system takes such names.
func isFileName(name string) bool {
	return name != "" && len(name) <= maxFileName && name[0] != '.' && !strings.HasSuffix(name, ".") &&
		filepath.IsLocal(name) && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}
