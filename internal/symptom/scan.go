package symptom

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	clean "assay/internal/text"
)

// What bounds the reading of a log.
const (
	longest  = 16 << 10 // bytes of a line that are looked at
	mostSeen = 4        // lines listed for one symptom
	mostOdd  = 12       // unknown lines listed
	mostKept = 600      // bytes of a line that are shown
	mostKeys = 200      // different symptoms kept of one input
)

// For is the release of PyTorch that an explanation is for: 2.8.0. The zero value: the one that the log or run names.
type For struct {
	Typed string // whatever the log or run says of itself
	Else  string // where it says nothing
}

// Scan explains a log. It reads a line at a time: a log may be longer than memory.
func (asked For) Scan(name string, in io.Reader) (*Report, error) {
	s := newScanner(name)
	s.asked = asked
	buf := make([]byte, 256<<10)
	var line []byte // what is known of a line that is not yet ended
	cut, lf := false, 1
	end := func() {
		if cut {
			s.rep.Cut++
		}
		s.line(line, lf)
		line, cut = line[:0], false
	}
	for {
		n, err := in.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			// progress bars overwrite themselves: each state is a line, under one number
			i := bytes.IndexAny(rest, "\r\n")
			part := rest
			if i >= 0 {
				part = rest[:i]
			}
			room := longest - len(line)
			if len(part) > room {
				part, cut = part[:room], true
			}
			line = append(line, part...)
			if i < 0 {
				break
			}
			end()
			if rest[i] == '\n' {
				lf++
			}
			rest = rest[i+1:]
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(line) > 0 {
		end()
		lf++
	}
	s.rep.Lines = lf - 1
	return s.finish(), nil
}

type scanner struct {
	*table
	rep     *Report
	trace   trace
	found   []int32
	seen    map[string]int // key → index of the symptom
	odd     map[string]int
	head    *Found // "RuntimeError:" whose message begins on the next line, and may be known
	left    int    // lines in which that is waited for
	batches int    // how often a batch was read
	last    []byte // the last line with something on it
	lastAt  int
	firstAt int // the first such line
	atlas   *operators
	asked   For
}

// release is the one to speak of, as far as the log was read; "" where none is known.
func (s *scanner) release() string { return cmp.Or(s.asked.Typed, s.rep.Context.Torch, s.asked.Else) }

func newScanner(name string) *scanner {
	return &scanner{table: must(), rep: &Report{Schema: Schema, Input: name, Symptoms: []Symptom{},
		Unknown: []Unknown{}},
		seen: map[string]int{}, odd: map[string]int{}, atlas: &operators{}}
}

// line looks at one line of a log.
func (s *scanner) line(raw []byte, number int) {
	if bytes.IndexByte(raw, 0x1b) >= 0 {
		raw = clean.WithoutSequences(raw)
	}
	if first := bytes.TrimLeft(raw, " \t"); len(first) > 1 && (first[0] == '[' || first[0] == '(' || first[0] == '|' ||
		first[0] == '+' || first[0] == 'E' && first[1] == ' ') {
		raw = raw[len(whose.Find(raw)):]
	}
	if len(bytes.TrimSpace(raw)) > 0 {
		s.last, s.lastAt = append(s.last[:0], raw[:min(len(raw), mostKept)]...), number
		if s.firstAt == 0 {
			s.firstAt = number
		}
	}
	ends := s.trace.line(raw, number)
	s.found = s.finder.in(raw, s.found[:0])
	known := false
	if len(s.found) > 0 {
		known = s.match(string(raw), Found{Line: number})
	}
	switch {
	case known:
		s.head = nil
	case ends || looksLikeError(raw):
		s.flush()
		s.head, s.left = &Found{Line: number, Text: shorten(string(raw)), Where: s.trace.user}, 12
		if !bytes.HasSuffix(bytes.TrimSpace(raw), []byte(":")) {
			s.flush()
		}
	case s.head != nil:
		if s.left--; s.left == 0 {
			s.flush()
		}
	}
	if ends {
		s.trace = trace{}
	}
}

type hit struct {
	p     *pattern
	at    []int
	start int
	end   int
}

// match applies the rules whose literal is in the line. Of rules that match the same words, the one with the longest
// literal is kept.
func (s *scanner) match(line string, where Found) bool {
	for i, n := range s.found {
		s.found[i] = s.owner[n]
	}
	slices.Sort(s.found)
	var hits []hit
	for _, i := range slices.Compact(s.found) {
		if int(i) >= len(s.patterns) {
			s.context(int(i)-len(s.patterns), line, where)
			continue
		}
		p := &s.patterns[i]
		if at := p.re.FindStringSubmatchIndex(line); at != nil {
			hits = append(hits, hit{p, at, at[0], at[1]})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		if c := a.p.rank() - b.p.rank(); c != 0 {
			return c
		}
		return shortest(b.p.anchors) - shortest(a.p.anchors)
	})
	var kept []hit
	for _, h := range hits {
		if !slices.ContainsFunc(kept, func(k hit) bool {
			return h.p.rule == k.p.rule || h.p.rule.General || h.start < k.end && k.start < h.end
		}) {
			kept = append(kept, h)
			s.add(h, line, where)
		}
	}
	return len(kept) > 0
}

func (s *scanner) add(h hit, line string, where Found) {
	groups := map[string]string{}
	for _, name := range h.p.rule.groups {
		groups[name] = ""
	}
	for i, name := range h.p.re.SubexpNames() {
		if name != "" && h.at[2*i] >= 0 {
			groups[name] = line[h.at[2*i]:h.at[2*i+1]]
		}
	}
	where.Text = excerpt(line, h.start, h.end)
	if where.Where == "" && where.Line > 0 {
		where.Where = s.trace.user
	}
	// The same message with other numbers is one symptom; another operator or class is another.
	key := h.p.rule.Name + "\x00" + groups["op"] + "\x00" + groups["what"]
	if i, ok := s.seen[key]; ok {
		sym := &s.rep.Symptoms[i]
		sym.Count++
		if len(sym.Found) < mostSeen {
			sym.Found = append(sym.Found, where)
		}
		return
	}
	if len(s.rep.Symptoms) >= mostKeys {
		return
	}
	s.seen[key] = len(s.rep.Symptoms)
	sym := s.explain(h.p.rule, groups, h.p.own, line)
	if !h.p.own {
		sym.Title = shorten(line[h.start:h.end])
	}
	sym.Facts = s.facts(line, h.start, h.end, groups["op"])
	sym.Count, sym.Found, sym.general = 1, []Found{where}, h.p.rule.General
	s.rep.Symptoms = append(s.rep.Symptoms, sym)
}

// facts names the rows whose text stands where a match is: of those about the operator that the line names, and that
// hold in the release that is asked about, where there are such.
func (s *scanner) facts(line string, start, end int, operator string) []string {
	var of, held []string
	for _, w := range s.texts {
		if operator != "" && !w.fact.Everywhere() && !w.fact.About(operator) {
			continue
		}
		if at := w.text.FindStringIndex(line); at != nil && at[0] < end && start < at[1] {
			of = append(of, w.fact.Name)
			if v := s.release(); v == "" || w.fact.Holds(v) {
				held = append(held, w.fact.Name)
			}
		}
	}
	if len(held) > 0 {
		return held
	}
	return of
}

func (s *scanner) flush() {
	if s.head != nil {
		s.unknown(*s.head)
		s.head = nil
	}
}

func (s *scanner) unknown(f Found) {
	key := digits.ReplaceAllString(f.Text, "0")
	if i, ok := s.odd[key]; ok {
		s.rep.Unknown[i].Count++
		return
	}
	if len(s.rep.Unknown) >= mostOdd {
		s.rep.More++
		return
	}
	s.odd[key] = len(s.rep.Unknown)
	s.rep.Unknown = append(s.rep.Unknown, Unknown{f, 1})
}

var digits = regexp.MustCompile(`(?:0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]*`)

func (s *scanner) finish() *Report {
	s.flush()
	if s.lastAt > 0 && s.lastAt == s.firstAt && len(s.rep.Symptoms) == 0 { // the whole input is one line
		if sym, ok := s.heading(string(s.last)); ok {
			s.rep.Unknown, s.odd = s.rep.Unknown[:0], map[string]int{}
			sym.Count, sym.Found = 1, []Found{{Line: s.lastAt, Text: shorten(string(s.last))}}
			s.rep.Symptoms = append(s.rep.Symptoms, sym)
		}
	}
	if s.trace.open { // the log ends in it
		s.unknown(Found{Line: s.trace.at,
			Text:  "Traceback (most recent call last), and the log ends before the error that it is of",
			Where: s.trace.user})
	}
	if len(s.rep.Symptoms) == 0 && len(s.rep.Unknown) == 0 && endWords.any(s.last) && sadEnd.Match(s.last) {
		s.unknown(Found{Line: s.lastAt, Text: shorten(string(s.last))})
	}
	for i, sym := range s.rep.Symptoms { // the kind of error says less than the error
		if sym.general && slices.ContainsFunc(s.rep.Symptoms, func(o Symptom) bool {
			return o.Topic == sym.Topic &&
				!o.general && !o.After
		}) {
			s.rep.Symptoms[i].After = true
		}
	}
	slices.SortStableFunc(s.rep.Symptoms, func(a, b Symptom) int { return rank(a) - rank(b) })
	return s.rep
}

func rank(s Symptom) int {
	n := slices.Index([]string{"error", "warning", "note"}, s.Severity)
	if s.After {
		n += 3
	}
	return n
}

// excerpt is the part of a line that a match is in.
func excerpt(line string, start, end int) string {
	if len(line) <= mostKept {
		return strings.TrimSpace(line)
	}
	from := max(0, start-80)
	to := min(len(line), max(end+80, from+mostKept))
	to = min(to, from+mostKept)
	return "… " + strings.TrimSpace(whole(line[from:to])) + " …"
}

func shorten(line string) string {
	if len(line) <= mostKept {
		return strings.TrimSpace(whole(line))
	}
	return strings.TrimSpace(whole(line[:mostKept])) + " …"
}

// whole leaves out what is no UTF-8: a line may have been cut in a character.
func whole(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "")
}

// What a log says of itself. The numbers of contextAnchors and of contextReaders agree.
var (
	contextAnchors = []string{"torch", "macos", "batch_size", "batch-size", "batch size", "batchsize"}
	// all three numbers: prose has two
	torchRelease = regexp.MustCompile(`(?i)\b(?:py)?torch(?:[ _-]?version)?["']?\s*(?:[:=]{1,2}|[-@ ])\s*["']?v?(2\.\d{1,2}\.\d{1,2})\b`)
	macRelease   = regexp.MustCompile(`(?i)(?:\bOS\s*[:=]\s*macos[ -]|macos-)((?:1[0-9]|2[0-9])(?:\.\d{1,2}){0,2})(?:-arm64|-x86_64| \(|$)`)
	batchSize    = regexp.MustCompile(`(?i)(?:\b|_|--)(eval_|test_|val_)?batch[_\- ]?size["']?\s*(?:[:=]|\s)\s*["']?(\d{1,6})\b`)
)

func (s *scanner) context(kind int, line string, where Found) {
	c := &s.rep.Context
	switch {
	case kind == 0 && c.Torch == "":
		if m := torchRelease.FindStringSubmatch(line); m != nil {
			c.Torch = m[1]
		}
	case kind == 1 && c.MacOS == "":
		if m := macRelease.FindStringSubmatch(line); m != nil {
			c.MacOS = m[1]
		}
	case kind >= 2 && s.batches < 1000:
		s.batches++
		m := batchSize.FindStringSubmatch(line)
		if m == nil || m[1] != "" {
			return
		}
		if n, err := strconv.Atoi(m[2]); err == nil && n > 0 {
			c.Batch, c.BatchFrom = n, "line "+strconv.Itoa(where.Line)
		}
	}
}
