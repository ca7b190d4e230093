package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTransfer(t *testing.T) {
	l := New()
	l.now = func() time.Time { return time.Unix(0, 0) }
	if _, err := l.Transfer("assets:cash", "expenses:food", 1250, "lunch"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		account string
		want    Amount
	}{
		{"assets", -1250},
		{"assets:cash", -1250},
		{"expenses:food", 1250},
		{"income", 0},
	} {
		if got := l.Balance(tt.account); got != tt.want {
			t.Errorf("Balance(%q) = %v, want %v", tt.account, got, tt.want)
		}
	}
	if _, err := l.Post("broken", Posting{"a", 1}); !errors.Is(err, ErrUnbalanced) {
		t.Errorf("Post returned %v, want %v", err, ErrUnbalanced)
	}
	var buf bytes.Buffer
	if _, err := l.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "journal.txt")
	if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if got, want := len(again.Accounts()), 2; got != want {
		t.Errorf("got %d accounts, want %d", got, want)
	}
}
