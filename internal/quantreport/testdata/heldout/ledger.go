// Package ledger keeps double-entry accounts in memory and in a line-based
// journal file. Amounts are integers of the smallest unit of a currency.
package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrUnbalanced is returned for a transaction whose postings do not sum to zero.
var ErrUnbalanced = errors.New("ledger: postings do not sum to zero")

// An Amount is a number of cents.
type Amount int64

// String prints the amount with two decimals.
func (a Amount) String() string {
	sign := ""
	if a < 0 {
		sign = "-"
		a = -a
	}
	return fmt.Sprintf("%s%d.%02d", sign, a/100, a%100)
}

// ParseAmount reads an amount such as "12.30" or "-5".
func ParseAmount(s string) (Amount, error) {
	text := s
	negative := strings.HasPrefix(text, "-")
	if negative {
		text = text[1:]
	}
	whole, fraction, found := strings.Cut(text, ".")
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ledger: amount %q: %w", s, err)
	}
	cents := int64(0)
	if found {
		if len(fraction) != 2 {
			return 0, fmt.Errorf("ledger: amount %q: want two decimals", s)
		}
		if cents, err = strconv.ParseInt(fraction, 10, 64); err != nil {
			return 0, fmt.Errorf("ledger: amount %q: %w", s, err)
		}
	}
	total := Amount(units*100 + cents)
	if negative {
		total = -total
	}
	return total, nil
}

// A Posting moves an amount into an account, or out of it if negative.
type Posting struct {
	Account string
	Amount  Amount
}

// A Transaction is a list of postings that happened together.
type Transaction struct {
	ID       int
	Time     time.Time
	Note     string
	Postings []Posting
}

// Balanced reports whether the postings sum to zero.
func (t *Transaction) Balanced() bool {
	var sum Amount
	for _, p := range t.Postings {
		sum += p.Amount
	}
	return sum == 0
}

// Ledger holds transactions and the balances that follow from them. It is safe
// for use by several goroutines.
type Ledger struct {
	mu           sync.RWMutex
	transactions []Transaction
	balances     map[string]Amount
	nextID       int
	now          func() time.Time
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		balances: make(map[string]Amount),
		nextID:   1,
		now:      time.Now,
	}
}

// Post adds a transaction and returns its number.
func (l *Ledger) Post(note string, postings ...Posting) (int, error) {
	t := Transaction{Note: note, Postings: postings}
	if !t.Balanced() {
		return 0, ErrUnbalanced
	}
	for _, p := range postings {
		if p.Account == "" {
			return 0, errors.New("ledger: posting without an account")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.ID = l.nextID
	t.Time = l.now()
	l.nextID++
	l.apply(t)
	return t.ID, nil
}

func (l *Ledger) apply(t Transaction) {
	l.transactions = append(l.transactions, t)
	for _, p := range t.Postings {
		l.balances[p.Account] += p.Amount
		if l.balances[p.Account] == 0 {
			delete(l.balances, p.Account)
		}
	}
}

// Transfer moves a positive amount from one account to another.
func (l *Ledger) Transfer(from, to string, amount Amount, note string) (int, error) {
	if amount <= 0 {
		return 0, fmt.Errorf("ledger: transfer of %s: want a positive amount", amount)
	}
	return l.Post(note, Posting{from, -amount}, Posting{to, amount})
}

// Balance returns the balance of an account and of all accounts below it, whose
// names begin with its name and a colon.
func (l *Ledger) Balance(account string) Amount {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var sum Amount
	for name, amount := range l.balances {
		if name == account || strings.HasPrefix(name, account+":") {
			sum += amount
		}
	}
	return sum
}

// Accounts lists the accounts with a balance, sorted by name.
func (l *Ledger) Accounts() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	names := make([]string, 0, len(l.balances))
	for name := range l.balances {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// WriteTo writes all transactions to w, one posting per line.
func (l *Ledger) WriteTo(w io.Writer) (int64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var written int64
	for _, t := range l.transactions {
		n, err := fmt.Fprintf(w, "%s #%d %s\n", t.Time.UTC().Format(time.RFC3339), t.ID, strconv.Quote(t.Note))
		written += int64(n)
		if err != nil {
			return written, err
		}
		for _, p := range t.Postings {
			n, err := fmt.Fprintf(w, "\t%s\t%s\n", p.Account, p.Amount)
			written += int64(n)
			if err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// Load reads a journal that WriteTo wrote.
func Load(path string) (*Ledger, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := New()
	var current *Transaction
	scanner := bufio.NewScanner(f)
	for line := 1; scanner.Scan(); line++ {
		text := scanner.Text()
		if text == "" || strings.HasPrefix(text, ";") {
			continue
		}
		if strings.HasPrefix(text, "\t") {
			if current == nil {
				return nil, fmt.Errorf("%s:%d: posting outside of a transaction", path, line)
			}
			p, err := parsePosting(text)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, line, err)
			}
			current.Postings = append(current.Postings, p)
			continue
		}
		if err := l.finish(current); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
		if current, err = parseHeader(text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	return l, l.finish(current)
}

func (l *Ledger) finish(t *Transaction) error {
	if t == nil {
		return nil
	}
	if !t.Balanced() {
		return fmt.Errorf("transaction %d: %w", t.ID, ErrUnbalanced)
	}
	l.apply(*t)
	if t.ID >= l.nextID {
		l.nextID = t.ID + 1
	}
	return nil
}

func parsePosting(text string) (Posting, error) {
	fields := strings.Split(strings.TrimPrefix(text, "\t"), "\t")
	if len(fields) != 2 {
		return Posting{}, fmt.Errorf("posting has %d fields, want 2", len(fields))
	}
	amount, err := ParseAmount(fields[1])
	return Posting{Account: fields[0], Amount: amount}, err
}

func parseHeader(text string) (*Transaction, error) {
	when, rest, ok := strings.Cut(text, " #")
	if !ok {
		return nil, errors.New("header without a number")
	}
	number, note, ok := strings.Cut(rest, " ")
	if !ok {
		return nil, errors.New("header without a note")
	}
	t := new(Transaction)
	var err error
	if t.Time, err = time.Parse(time.RFC3339, when); err != nil {
		return nil, err
	}
	if t.ID, err = strconv.Atoi(number); err != nil {
		return nil, err
	}
	t.Note, err = strconv.Unquote(note)
	return t, err
}
