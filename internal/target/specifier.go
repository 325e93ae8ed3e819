package target

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/atlas"
)

// clause is one condition on a release: >=2.1, or ==2.1.* where Series is set.
type clause struct {
	op      string // == != >= > <= <
	version version
	series  bool // ==2.1.*: what follows the numbers is any
}

// version is a release as PEP 440 orders it: numbers, then whether it is final. Labels behind + are left out.
type version struct {
	numbers []int
	pre     bool // 2.9.0rc1, 2.16.0.dev20260801: before the final release
}

// specifier says which releases are asked for: any of the alternatives, all clauses of which hold. Without an
// alternative it is any release.
type specifier [][]clause

// versionForm is PEP 440's, without an epoch.
var versionForm = regexp.MustCompile(`(?i)^v?(\d+(?:\.\d+)*)([-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?` +
	`((?:[-_.]?post[-_.]?\d*)|-\d+)?([-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9._-]*)?$`)

func parseVersion(text string) (version, bool) {
	m := versionForm.FindStringSubmatch(text)
	if m == nil || len(text) > maxVersion {
		return version{}, false
	}
	var v version
	for field := range strings.SplitSeq(m[1], ".") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return version{}, false
		}
		v.numbers = append(v.numbers, n)
	}
	v.pre = m[2] != "" || m[4] != ""
	return v, true
}

// maxVersion is the longest text that is read as a release. The longest of PyTorch's own have some 40 characters.
const maxVersion = 100

// compare orders versions: 2.8 is 2.8.0, and what comes before a final release is smaller than that.
func (v version) compare(w version) int {
	for i := range max(len(v.numbers), len(w.numbers)) {
		if c := cmp.Compare(v.number(i), w.number(i)); c != 0 {
			return c
		}
	}
	switch {
	case v.pre && !w.pre:
		return -1
	case w.pre && !v.pre:
		return 1
	}
	return 0
}

func (v version) number(i int) int {
	if i < len(v.numbers) {
		return v.numbers[i]
	}
	return 0
}

func (v version) String() string {
	var fields []string
	for _, n := range v.numbers {
		fields = append(fields, strconv.Itoa(n))
	}
	return strings.Join(fields, ".")
}

func (c clause) holds(v version) bool {
	if c.series {
		same := len(v.numbers) >= len(c.version.numbers) &&
			slices.Equal(v.numbers[:len(c.version.numbers)], c.version.numbers)
		return same == (c.op == "==")
	}
	n := v.compare(c.version)
	switch c.op {
	case "==":
		return n == 0
	case "!=":
		return n != 0
	case ">=":
		return n >= 0
	case ">":
		return n > 0
	case "<=":
		return n <= 0
	}
	return n < 0
}

// allows says whether a release is one of those that are asked for. What is no release is not.
func (s specifier) allows(release string) bool {
	v, ok := parseVersion(release)
	if !ok {
		return false
	}
	return len(s) == 0 || slices.ContainsFunc(s, func(all []clause) bool {
		return !slices.ContainsFunc(all, func(c clause) bool { return !c.holds(v) })
	})
}

// exact is the one release that is asked for, "" where there may be several.
func (s specifier) exact() string {
	if len(s) == 1 && len(s[0]) == 1 && s[0][0].op == "==" && !s[0][0].series {
		return s[0][0].version.String()
	}
	return ""
}

// wanted is a release that stands for those that are asked for, where none of them is known: the first that is named.
func (s specifier) wanted() string {
	for _, all := range s {
		for _, c := range all {
			return c.version.String()
		}
	}
	return ""
}

// of lists the known releases that are asked for, oldest first.
func (s specifier) of(known []atlas.Release) []atlas.Release {
	return slices.DeleteFunc(slices.Clone(known), func(r atlas.Release) bool { return !s.allows(r.Version) })
}

// dialect is how a tool writes what it asks for.
type dialect int

const (
	pep440 dialect = iota // pip's: ==2.1.0, >=2.1,<2.4, ~=2.1
	poetry                // ^2.1, ~2.1, 2.1.*, 2.1.0
	conda                 // =2.1, ==2.1.0, >=2.1,<2.4, 2.1.*, 2.1.0
)

var clauseForm = regexp.MustCompile(`^\s*(===|==|~=|!=|>=|<=|>|<|=|\^|~)?\s*([^\s<>=!~^]+)\s*$`)

// parseSpecifier reads what is asked for; "", "*" and "latest" are any release.
func parseSpecifier(text string, by dialect) (specifier, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "*" || text == "latest" {
		return nil, nil
	}
	if len(text) > 10*maxVersion {
		return nil, fmt.Errorf("longer than %d characters", 10*maxVersion)
	}
	var s specifier
	alternatives := []string{text}
	if by != pep440 {
		alternatives = strings.Split(strings.ReplaceAll(text, "||", "|"), "|")
	}
	for _, alternative := range alternatives {
		var all []clause
		if by == poetry { // it takes a space for a comma, too: >=2.1 <2.4
			alternative = spaceBetween.ReplaceAllString(strings.TrimSpace(alternative), "$1,$2")
		}
		for part := range strings.SplitSeq(alternative, ",") {
			if strings.TrimSpace(part) == "" || strings.TrimSpace(part) == "*" {
				continue
			}
			list, err := parseClause(part, by)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		if len(all) == 0 {
			return nil, nil
		}
		s = append(s, all)
	}
	return s, nil
}

var spaceBetween = regexp.MustCompile(`([\w*])\s+([<>=!~^])`)

// condaBuild is a release and the name of its build: =2.1.0=py3.11_0.
var condaBuild = regexp.MustCompile(`^(\s*[=<>!~]*\s*[^\s=<>!~]+)=[^=].*$`)

func parseClause(text string, by dialect) ([]clause, error) {
	if by == conda {
		text = condaBuild.ReplaceAllString(text, "$1")
	}
	m := clauseForm.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is no condition on a release", text)
	}
	op, number := m[1], m[2]
	number, series := strings.CutSuffix(number, ".*")
	if by == conda && !series {
		number, series = strings.CutSuffix(number, "*")
	}
	v, ok := parseVersion(number)
	if !ok {
		return nil, fmt.Errorf("%q is no release", m[2])
	}
	// next is the first release that shares no longer the first n numbers.
	next := func(n int) clause {
		n = min(max(n, 1), len(v.numbers))
		end := version{numbers: slices.Clone(v.numbers[:n])}
		end.numbers[n-1]++
		return clause{op: "<", version: end}
	}
	from := clause{op: ">=", version: v}
	switch {
	case op == "" && by == pep440:
		return nil, fmt.Errorf("%q has no comparison", text)
	case op == "=" && by == pep440, (op == "^" || op == "~") && by != poetry:
		return nil, fmt.Errorf("%q is no comparison", op)
	case op == "^":
		return []clause{from, next(1)}, nil // of 2 and above; PyTorch's earlier releases are in no table
	case op == "~":
		return []clause{from, next(2)}, nil
	case op == "~=":
		return []clause{from, next(len(v.numbers) - 1)}, nil
	case op == "=" && by == conda: // one = is any release that begins so
		return []clause{{"==", v, true}}, nil
	case op == "" || op == "=" || op == "===":
		op = "=="
	}
	if series && op != "==" && op != "!=" { // >=2.1.* is >=2.1
		series = false
	}
	return []clause{{op, v, series}}, nil
}
