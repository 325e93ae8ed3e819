package logbook

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The tables that are read out of documents are mostly words, and mostly the same. A form is a row of such words
// without what differs from run to run; records have its number. A form that no record has any more goes (sweep).

// forms are the tables of forms and who names them, in the order in which they can be swept.
var forms = []struct {
	table   string
	columns int // of words
	users   string
}{
	{"figure_form", 6, "figure"},
	{"operator_form", 3, "operator"},
	{"finding_form", 6, "finding"},
	{"series_form", 1, "series"},
	{"fact_set", 0, "facts_of"},
	{"fact_form", 4, "fact"}, // after the sets
}

// tables have a record's rows, which begin with its number and their place.
var tables = []string{"figure", "facts_of", "operator", "finding", "series"}

// row is one of a table less the record's number and its place: the words of its form, and what else it has.
type row struct {
	words []any
	rest  []any
	set   []row // of facts_of: the facts themselves, instead of words
}

// formSum names a form by its words: nil or text each.
func formSum(words []any) string {
	sum := sha256.New()
	var n [binary.MaxVarintLen64]byte
	for _, w := range words {
		s, ok := w.(string)
		if !ok {
			sum.Write([]byte{0})
			continue
		}
		sum.Write(n[:binary.PutUvarint(n[:], uint64(len(s))+1)])
		sum.Write([]byte(s))
	}
	return string(sum.Sum(nil)[:16])
}

// sum of a row's form, or set.
func (r *row) sum() string {
	if r.set == nil {
		return formSum(r.words)
	}
	var words []any
	for _, f := range r.set {
		words = append(append(words, f.words...), f.rest...)
	}
	return formSum(words)
}

// factsOfSet is how many facts of one part share a set: one that differs costs no more than these.
const factsOfSet = 8

// setsOf puts facts of a part, as they follow one another, into sets.
func setsOf(facts []row) (sets []row) {
	for len(facts) > 0 {
		n := 1
		for n < min(len(facts), factsOfSet) && facts[n].words[0] == facts[0].words[0] {
			n++
		}
		sets = append(sets, row{set: facts[:n:n]})
		facts = facts[n:]
	}
	return sets
}

// mostTold is how many numbers of a note stand beside its form: the view has so many.
const mostTold = 8

var noteNumber = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?`)

// tell takes the numbers out of a note, which differ where the words do not.
func tell(note any) (format, told any) {
	s, ok := note.(string)
	if !ok {
		return note, nil
	}
	at := noteNumber.FindAllStringIndex(s, mostTold+1)
	if len(at) == 0 || len(at) > mostTold {
		return note, nil
	}
	var out strings.Builder
	var numbers []string
	last := 0
	for _, n := range at {
		out.WriteString(strings.ReplaceAll(s[last:n[0]], "%", "%%"))
		out.WriteString("%s")
		numbers = append(numbers, s[n[0]:n[1]])
		last = n[1]
	}
	out.WriteString(strings.ReplaceAll(s[last:], "%", "%%"))
	list, err := json.Marshal(numbers)
	if err != nil {
		return note, nil
	}
	return out.String(), string(list)
}

// inserter puts rows into the tables, within one transaction.
type inserter struct {
	ctx   context.Context
	tx    *sql.Tx
	ready map[string]*sql.Stmt // the book's
	stmts map[string]*sql.Stmt // this transaction's
	known map[string]int64     // table and sum: form
}

// inserter is one for a transaction, for whoever has locked writing. What the book knows of forms stays true as long as
// nobody else writes.
func (b *Book) inserter(ctx context.Context, tx *sql.Tx) (*inserter, error) {
	var version int64
	if err := tx.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return nil, err
	}
	if version != b.seen || b.known == nil {
		b.seen, b.known = version, map[string]int64{}
	}
	return &inserter{ctx: ctx, tx: tx, ready: b.ready, stmts: map[string]*sql.Stmt{}, known: b.known}, nil
}

// prepareInserts has the statements ready that each record needs.
func (b *Book) prepareInserts(ctx context.Context) error {
	if b.ready != nil {
		return nil
	}
	ready := map[string]*sql.Stmt{}
	for _, query := range append([]string{recordInsert,
		"SELECT count(*) FROM content WHERE id = ?", "SELECT hash FROM ledger ORDER BY entry DESC LIMIT 1",
		"INSERT INTO ledger(kind, ref, hash) VALUES(?,?,?)",
		"INSERT INTO content(id, size, data, base) VALUES(?,?,?,?)"}, rowInserts()...) {
		s, err := b.db.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		ready[query] = s
	}
	b.ready = ready
	return nil
}

// stmt is a statement of this transaction.
func (w *inserter) stmt(query string) (*sql.Stmt, error) {
	if s := w.stmts[query]; s != nil {
		return s, nil
	}
	var s *sql.Stmt
	var err error
	if ready := w.ready[query]; ready != nil {
		s = w.tx.StmtContext(w.ctx, ready)
	} else if s, err = w.tx.PrepareContext(w.ctx, query); err != nil {
		return nil, err
	}
	w.stmts[query] = s
	return s, nil
}

func (w *inserter) exec(query string, args ...any) (sql.Result, error) {
	s, err := w.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(w.ctx, args...)
}

// query reads one cell.
func (w *inserter) query(into any, query string, args ...any) error {
	s, err := w.stmt(query)
	if err != nil {
		return err
	}
	return s.QueryRowContext(w.ctx, args...).Scan(into)
}

func (w *inserter) close() {
	for _, s := range w.stmts {
		s.Close()
	}
	clear(w.stmts)
}

// form gives the number of a form, and makes it where there is none.
func (w *inserter) form(table, sum string, words []any) (form int64, fresh bool, err error) {
	if form, ok := w.known[table+sum]; ok {
		return form, false, nil
	}
	err = w.query(&form, "SELECT form FROM "+table+" WHERE sum = ?", []byte(sum))
	if errors.Is(err, sql.ErrNoRows) {
		var res sql.Result
		args := append([]any{[]byte(sum)}, words...)
		if res, err = w.exec("INSERT INTO "+table+" VALUES(NULL,"+marks(len(args))+")", args...); err != nil {
			return 0, false, err
		}
		form, err = res.LastInsertId()
		fresh = true
	}
	if err != nil {
		return 0, false, err
	}
	if len(w.known) > 1<<16 {
		clear(w.known)
	}
	w.known[table+sum] = form
	return form, fresh, nil
}

// set gives the number of a set of facts, and makes it where there is none.
func (w *inserter) set(r *row) (int64, error) {
	set, fresh, err := w.form("fact_set", r.sum(), nil)
	if err != nil || !fresh {
		return set, err
	}
	for seq, f := range r.set {
		form, _, err := w.form("fact_form", formSum(f.words), f.words)
		if err != nil {
			return 0, err
		}
		if _, err := w.exec("INSERT INTO fact VALUES(?,?,?,?)", set, seq, form, f.rest[0]); err != nil {
			return 0, err
		}
	}
	return set, nil
}

// together is how many rows one statement inserts, where there are as many.
const together = 16

// widths are the cells of a row of each table.
var widths = map[string]int{"figure": 8, "facts_of": 3, "operator": 7, "finding": 3, "series": 5}

var recordInsert = "INSERT INTO record VALUES(" + marks(32) + ")"

func rowInsert(table string, rows int) string {
	one := "(" + marks(widths[table]) + ")"
	return "INSERT INTO " + table + " VALUES" + one + strings.Repeat(","+one, rows-1)
}

func rowInserts() (all []string) {
	for _, table := range tables {
		all = append(all, rowInsert(table, 1), rowInsert(table, together))
	}
	return all
}

// insert puts a record's row and the rows of the others into the tables; number 0: the next. It gives the number.
func (w *inserter) insert(number int64, id string, p *projection) (int64, error) {
	args := append([]any{nil, id}, p.record...)
	if number > 0 {
		args[0] = number
	}
	res, err := w.exec(recordInsert, args...)
	if err != nil {
		return 0, err
	}
	if number == 0 {
		if number, err = res.LastInsertId(); err != nil {
			return 0, err
		}
	}
	for _, table := range tables {
		args := make([]any, 0, together*widths[table])
		one, many := rowInsert(table, 1), rowInsert(table, together)
		for seq, r := range p.rows[table] {
			var form int64
			if r.set != nil {
				form, err = w.set(&r)
			} else {
				form, _, err = w.form(formsOf(table), formSum(r.words), r.words)
			}
			if err != nil {
				return 0, err
			}
			if args = append(append(args, number, seq, form), r.rest...); len(args) == cap(args) {
				if _, err := w.exec(many, args...); err != nil {
					return 0, err
				}
				args = args[:0]
			}
		}
		for ; len(args) > 0; args = args[widths[table]:] {
			if _, err := w.exec(one, args[:widths[table]]...); err != nil {
				return 0, err
			}
		}
	}
	for _, about := range p.links {
		if _, err := w.exec("INSERT INTO link VALUES(?,?)", number, about); err != nil {
			return 0, err
		}
	}
	return number, nil
}

// formsOf is the table of forms of a table of rows.
func formsOf(table string) string {
	if table == "facts_of" {
		return "fact_set"
	}
	return table + "_form"
}

// sweep takes out the forms that no record has any more. What was forgotten may stand in them.
func sweep(ctx context.Context, tx *sql.Tx) error {
	for _, f := range forms {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE form NOT IN (SELECT form FROM %s)", f.table,
			f.users)); err != nil {
			return err
		}
		if f.table == "fact_set" {
			if _, err := tx.ExecContext(ctx, "DELETE FROM fact WHERE fact_set NOT IN (SELECT form FROM fact_set)"); err != nil {
				return err
			}
		}
	}
	return nil
}

// kept are the forms of a file, for Verify: by table and number what their sum is. A form that is not what its
// sum says, or that nobody has, is a problem.
type kept map[string]map[int64]string

func keptForms(ctx context.Context, tx *sql.Tx, problem func(string, ...any)) (kept, error) {
	all := kept{}
	words := map[int64][]any{} // of fact_form
	for _, f := range slices.Backward(forms) {
		sums := map[int64]string{}
		all[f.table] = sums
		err := each(ctx, tx, "SELECT * FROM "+f.table, func(scan func(...any) error) error {
			var form int64
			var sum []byte
			into := make([]any, 2+f.columns)
			row := make([]any, f.columns)
			into[0], into[1] = &form, &sum
			for i := range row {
				into[2+i] = &row[i]
			}
			if err := scan(into...); err != nil {
				return err
			}
			sums[form] = string(sum)
			if f.table == "fact_form" {
				words[form] = row
			}
			if f.table != "fact_set" && formSum(row) != string(sum) {
				problem("the table %s: row %d is not what was kept", f.table, form)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		var idle int
		if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE form NOT IN (SELECT form FROM %s)",
			f.table, f.users)).Scan(&idle); err != nil {
			return nil, err
		}
		if idle > 0 {
			problem("%d rows of %s belong to no record", idle, f.table)
		}
	}
	sets := map[int64][]any{}
	if err := each(ctx, tx, "SELECT fact_set, seq, form, value FROM fact ORDER BY fact_set, seq", func(scan func(...any) error) error {
		var set, seq, form int64
		var value any
		err := scan(&set, &seq, &form, &value)
		w := words[form]
		if w == nil {
			w = []any{nil, nil, nil, nil}
		}
		sets[set] = append(append(sets[set], w...), value)
		return err
	}); err != nil {
		return nil, err
	}
	for set, sum := range all["fact_set"] {
		if formSum(sets[set]) != sum {
			problem("the table fact: the set %d is not what was kept", set)
		}
		delete(sets, set)
	}
	if len(sets) > 0 {
		problem("%d sets of facts belong to no record", len(sets))
	}
	return all, nil
}
