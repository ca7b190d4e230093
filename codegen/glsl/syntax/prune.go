package syntax

import "slices"

// Prune returns the statements of a block without dead code: without variables that are never read, assignments to
// these variables, and loops and branches with empty bodies. The caller has pruned the blocks inside.
//
// Prune assumes that initializers and assigned values have no effects. It keeps declarations of several variables, and
// precise ones.
func Prune(list []Stmt) []Stmt {
	for {
		shorter := withoutUnread(withoutUnused(list))
		if len(shorter) == len(list) {
			return list
		}
		list = shorter
	}
}

// singleVar returns the variable of a statement that declares exactly one, and false for other statements.
func singleVar(s Stmt) (v Var, ok bool) {
	d, ok := s.(*Declare)
	if !ok || len(d.Vars) != 1 || d.Qualifiers != "" && d.Qualifiers != "const" {
		return v, false
	}
	return d.Vars[0], true
}

// withoutUnused removes declarations of variables that no later statement mentions, and empty blocks.
func withoutUnused(list []Stmt) []Stmt {
	mentioned := map[string]bool{}
	mention := func(name string) { mentioned[name] = true }
	kept := make([]Stmt, 0, len(list))
	// From the end, so that mentioned has the names in later statements.
	for i, s := range slices.Backward(list) {
		v, isVar := singleVar(s)
		if isVar && v.Init != nil && !mentioned[v.Name] || isEmpty(s) {
			kept = withoutTrailing(kept)
			continue
		}
		kept = append(kept, s)
		Names(list[i:i+1], mention)
	}
	if len(kept) == len(list) {
		return list
	}
	slices.Reverse(kept)
	return kept
}

// withoutTrailing removes the last element of reversed if that is a trailing comment. reversed has the statements
// after a removed one, from last to first, so this comment belongs to the removed statement.
func withoutTrailing(reversed []Stmt) []Stmt {
	last := len(reversed) - 1
	if last < 0 {
		return reversed
	}
	if c, ok := reversed[last].(*Comment); ok && c.Trailing {
		return reversed[:last]
	}
	return reversed
}

// isEmpty reports whether a statement is a loop or branch with an empty body.
func isEmpty(s Stmt) bool {
	switch s := s.(type) {
	case *If:
		return len(s.Then) == 0 && len(s.Else) == 0
	case *For:
		// A while loop's condition may have an effect.
		return len(s.Body) == 0 && !s.While
	}
	return false
}

// assigned returns the variable of a statement that only assigns to it or to an element of it, and the expressions that
// the statement reads. name is "" for other statements.
func assigned(s Stmt) (name string, reads []*Expr) {
	a, ok := s.(*Assign)
	if !ok || a.Value == nil {
		return "", nil
	}
	to := a.To
	reads = append(reads, a.Value)
	for to.Op == Index || to.Op == Member {
		reads = append(reads, to.Args[1:]...)
		to = to.Args[0]
	}
	if to.Op != Name {
		return "", nil
	}
	return to.Text, reads
}

// withoutUnread removes variables that are declared without a value and then only assigned.
func withoutUnread(list []Stmt) []Stmt {
	unread := map[string]bool{}
	for _, s := range list {
		if v, ok := singleVar(s); ok && v.Init == nil {
			unread[v.Name] = true
		}
	}
	if len(unread) == 0 {
		return list
	}
	Visit(list, func(s Stmt) {
		name, reads := assigned(s)
		if name == "" {
			visitStmtNames(s, func(n string) { delete(unread, n) })
			return
		}
		for _, x := range reads {
			x.visitNames(func(n string) {
				// A variable that is read only to compute its own next value is unread.
				if n != name {
					delete(unread, n)
				}
			})
		}
	})
	if len(unread) == 0 {
		return list
	}
	return without(list, unread)
}

// without removes the declarations of variables and the assignments to them.
func without(list []Stmt, names map[string]bool) []Stmt {
	var kept []Stmt
	for _, s := range list {
		if name, _ := assigned(s); names[name] {
			continue
		}
		if v, ok := singleVar(s); ok && v.Init == nil && names[v.Name] {
			continue
		}
		switch t := s.(type) {
		case *If:
			c := *t
			// Blocks may have become empty.
			c.Then, c.Else = Prune(without(t.Then, names)), Prune(without(t.Else, names))
			s = &c
		case *For:
			c := *t
			c.Body = Prune(without(t.Body, names))
			s = &c
		case *Block:
			s = &Block{Prune(without(t.Body, names))}
		}
		kept = append(kept, s)
	}
	return kept
}
