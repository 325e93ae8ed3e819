package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/fault"
	"assay/internal/unit"
)

// Axis is a placeholder and its values: --matrix lr=0.1,0.01.
type Axis struct {
	Name   string
	Values []string
}

// maxJobsFile bounds a file of jobs, bytes.
const maxJobsFile = 64 << 20

var axisForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// ParseAxis reads name=value,value.
func ParseAxis(s string) (Axis, error) {
	name, values, ok := strings.Cut(s, "=")
	a := Axis{Name: name}
	for v := range strings.SplitSeq(values, ",") {
		if v = strings.TrimSpace(v); v != "" && !slices.Contains(a.Values, v) {
			a.Values = append(a.Values, v)
		}
	}
	if !ok || !axisForm.MatchString(name) || name == "repeat" || len(a.Values) == 0 {
		return Axis{}, fmt.Errorf("%q: write a name and its values, as lr=0.1,0.01", s)
	}
	return a, nil
}

// Expand makes a task of each combination of the axes' values, repeat times each, in their order: {name} in a word of
// the command becomes the value, and {repeat} the number from 1. Each axis must be used.
func Expand(t Task, axes []Axis, repeat int) ([]Task, error) {
	uses := func(name string) bool {
		return slices.ContainsFunc(t.Command, func(w string) bool { return strings.Contains(w, "{"+name+"}") })
	}
	total := max(repeat, 1)
	for i, a := range axes {
		if !uses(a.Name) {
			return nil, fmt.Errorf("no word of the command has {%s} in it", a.Name)
		}
		if slices.ContainsFunc(axes[:i], func(b Axis) bool { return a.Name == b.Name }) {
			return nil, fmt.Errorf("%s is given twice", a.Name)
		}
		if total *= len(a.Values); total > MaxTasks {
			return nil, fmt.Errorf("more than %d jobs", MaxTasks)
		}
	}
	var all []Task
	picks := make([]int, len(axes))
	for {
		for r := 1; r <= max(repeat, 1); r++ {
			one, words, cells := t, slices.Clone(t.Command), []string{}
			replace := func(name, value string) {
				for i, w := range words {
					words[i] = strings.ReplaceAll(w, "{"+name+"}", value)
				}
			}
			for i, a := range axes {
				replace(a.Name, a.Values[picks[i]])
				cells = append(cells, a.Name+"="+a.Values[picks[i]])
			}
			replace("repeat", fmt.Sprint(r))
			if repeat > 1 {
				cells = append(cells, fmt.Sprintf("repeat=%d", r))
			}
			one.Command, one.Cell = words, strings.Join(cells, " ")
			all = append(all, one)
		}
		i := len(axes) - 1
		for ; i >= 0; i-- {
			if picks[i]++; picks[i] < len(axes[i].Values) {
				break
			}
			picks[i] = 0
		}
		if i < 0 {
			return all, nil
		}
	}
}

var unnamed = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// NameTasks gives each task without a name one that tells it from the others: by its cell, else by its number.
func NameTasks(all []Task) {
	width := len(fmt.Sprint(len(all)))
	seen := map[string]bool{}
	for _, t := range all {
		seen[t.Name] = true
	}
	for i := range all {
		t := &all[i]
		if t.Name != "" {
			continue
		}
		name := strings.Trim(unnamed.ReplaceAllString(t.Cell, "-"), "-.")
		number := fmt.Sprintf("%0*d", width, i+1)
		switch {
		case len(all) == 1 && name == "":
			name = "run"
		case name == "" || !nameForm.MatchString(name):
			name = number
		}
		for n := 0; seen[name]; n++ {
			name = number
			if n > 0 {
				name = fmt.Sprintf("%s.%d", number, n)
			}
		}
		t.Name, seen[name] = name, true
	}
}

// jobsFile is a file of jobs in TOML.
type jobsFile struct {
	Job []struct {
		Name    string `toml:"name"`
		Command any    `toml:"command"` // a text, split as a shell would, or a list of words
		Memory  string `toml:"memory"`
		Chip    string `toml:"chip"`
		Label   string `toml:"label"`
		Limit   string `toml:"limit"`
	} `toml:"job"`
}

// ReadJobs reads a file of jobs: one ending in .toml has a [[job]] each, any other a command a line, split into words
// as a shell would without expanding anything; a line that begins with "#" is none. What a job does not say is as in
// like.
func ReadJobs(path string, like Task) ([]Task, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJobsFile+1))
	if err == nil && len(data) > maxJobsFile {
		err = fmt.Errorf("larger than %d bytes", maxJobsFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %s: %w", path, err)
	}
	var all []Task
	if strings.HasSuffix(path, ".toml") {
		all, err = tomlJobs(data, like)
	} else {
		all, err = lineJobs(string(data), like)
	}
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %s%w", path, err)
	}
	if len(all) == 0 {
		return nil, fault.Hint(fmt.Errorf("read the jobs: %s has none", path),
			"write a command a line, or [[job]] in TOML")
	}
	if len(all) > MaxTasks {
		return nil, fmt.Errorf("read the jobs: %s has %d, and %d are the most", path, len(all), MaxTasks)
	}
	return all, nil
}

func lineJobs(data string, like Task) ([]Task, error) {
	var all []Task
	n := 0
	for line := range strings.Lines(data) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words, err := SplitWords(line)
		if err != nil {
			return nil, fmt.Errorf(":%d: %w", n, err)
		}
		t := like
		t.Command = words
		all = append(all, t)
	}
	return all, nil
}

func tomlJobs(data []byte, like Task) ([]Task, error) {
	var raw jobsFile
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&raw); err != nil {
		var unknown *toml.StrictMissingError
		if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
			line, _ := unknown.Errors[0].Position()
			return nil, fault.Hint(fmt.Errorf(":%d: there is no key %q", line, strings.Join(unknown.Errors[0].Key(),
				".")),
				"of [[job]]: name, command, memory, chip, label, limit")
		}
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, _ := at.Position()
			return nil, fmt.Errorf(":%d: %w", line, err)
		}
		return nil, fmt.Errorf(": %w", err)
	}
	var all []Task
	for i, j := range raw.Job {
		t := like
		var err error
		switch c := j.Command.(type) {
		case string:
			t.Command, err = SplitWords(c)
		case []any:
			for _, w := range c {
				s, ok := w.(string)
				if !ok {
					err = fmt.Errorf("command: %v is no text", w)
				}
				t.Command = append(slices.Clone(t.Command), s)
			}
		}
		if err == nil && j.Memory != "" {
			t.Needs.Memory, err = ParseSize(j.Memory)
		}
		if err == nil && j.Limit != "" {
			t.Limit, err = unit.ParseSeconds(j.Limit)
		}
		if err == nil && len(t.Command) == 0 {
			err = errors.New("it has no command")
		}
		if err == nil && j.Name != "" && !nameForm.MatchString(j.Name) {
			err = fmt.Errorf("name = %q: letters, digits, \".\", \"_\" and \"-\", 64 at most", j.Name)
		}
		if err != nil {
			return nil, fmt.Errorf(": job %d: %w", i+1, err)
		}
		t.Name, t.Needs.Chip, t.Needs.Label = j.Name, or(j.Chip, t.Needs.Chip), or(j.Label, t.Needs.Label)
		all = append(all, t)
	}
	return all, nil
}

// SplitWords splits a line into words as a shell would, and expands nothing: quotes, and a backslash before a
// character.
func SplitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote or a backslash without its end")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
