package target

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed chips.csv
var chipsCSV []byte

// Part is a row of chips.csv: a chip as it was sold, with so many GPU cores.
type Part struct {
	Chip       string // M3 Ultra
	Generation int    // 3
	Cores      int    // of the GPU
	Memories   []int  // GiB of unified memory that it was sold with, ascending; nil where that is not known

	Bandwidth float64 // of the memory, GB/s (10⁹ bytes); 0: not known
	TFLOPS    float64 // FP32, 10¹² operations a second at the top clock; 0: not known

	Macs   string // in which it was sold
	Source string
	Note   string
}

// Parts lists the rows of chips.csv.
func Parts() []Part {
	parts, err := parseParts(chipsCSV)
	if err != nil {
		panic(fmt.Sprintf("target: built-in chips.csv: %v", err)) // a test reads it
	}
	return parts
}

func parseParts(text []byte) ([]Part, error) {
	in := csv.NewReader(bytes.NewReader(text))
	in.Comment = '#'
	rows, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row")
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	var parts []Part
	for _, row := range rows[1:] {
		p := Part{Chip: row[at["chip"]], Macs: row[at["mac_models"]], Source: row[at["source"]], Note: row[at["note"]]}
		if p.Cores, err = strconv.Atoi(row[at["gpu_cores"]]); err != nil {
			return nil, fmt.Errorf("%s: GPU cores: %w", p.Chip, err)
		}
		if p.Generation, err = strconv.Atoi(row[at["generation"]]); err != nil {
			return nil, fmt.Errorf("%s: generation: %w", p.Chip, err)
		}
		for column, figure := range map[string]*float64{"memory_bandwidth_gb_s": &p.Bandwidth,
			"fp32_tflops": &p.TFLOPS} {
			if text := row[at[column]]; text != "" {
				if *figure, err = strconv.ParseFloat(text, 64); err != nil || *figure <= 0 {
					return nil, fmt.Errorf("%s: %s is %q, not a positive number", p.Chip, column, text)
				}
			}
		}
		for field := range strings.SplitSeq(row[at["memory_options_gb"]], ";") {
			if field == "" {
				continue
			}
			gib, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%s: memory: %w", p.Chip, err)
			}
			p.Memories = append(p.Memories, gib)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// Chip is a chip with the unified memory of one Mac.
type Chip struct {
	Name   string // Apple M3 Ultra, as Metal and sysctl call it
	Short  string // m3-ultra-96gb, as --chip takes it
	Memory int    // GiB
	Cores  int    // of the GPU
	Chosen string // what was chosen where the name left it open; "" where it said all
}

// DefaultChip is the Mac that is assumed where none is named: the oldest chip, in its larger size. What runs there runs
// on most.
const DefaultChip = "m1-16gb"

// ChipError says that a name is no chip that was sold.
type ChipError struct {
	Name string
	Why  string
	Near []string // what may have been meant
}

func (e *ChipError) Error() string { return fmt.Sprintf("chip %s: %s", e.Name, e.Why) }

var (
	separators = regexp.MustCompile(`[-_ ]+`)
	sizeWord   = regexp.MustCompile(`^(\d+)(gb|gib|g)$`)
	coresWord  = regexp.MustCompile(`^(\d+)(core|cores)$`)
)

// ParseChip reads a name such as m1, m2-pro-16gb or m3-ultra-60core-96gb. Without a memory the smallest that the chip
// was sold with is taken, without cores the most that were sold with that memory; Chosen says so.
func ParseChip(name string) (Chip, error) {
	var words []string
	memory, cores := 0, 0
	for _, word := range separators.Split(strings.ToLower(strings.TrimSpace(name)), -1) {
		switch {
		case sizeWord.MatchString(word):
			memory, _ = strconv.Atoi(sizeWord.FindStringSubmatch(word)[1])
		case coresWord.MatchString(word):
			cores, _ = strconv.Atoi(coresWord.FindStringSubmatch(word)[1])
		case word != "" && word != "apple":
			words = append(words, word)
		}
	}
	short := strings.Join(words, "-")
	var sold []Part
	for _, p := range Parts() {
		if slug(p.Chip) == short && (cores == 0 || p.Cores == cores) {
			sold = append(sold, p)
		}
	}
	if len(sold) == 0 {
		if cores != 0 && slices.Contains(ChipNames(), short) {
			return Chip{}, &ChipError{name, fmt.Sprintf("%s was not sold with %d GPU cores", short, cores),
				partNames(short)}
		}
		return Chip{}, &ChipError{name, "no such chip is known", nearChips(short)}
	}
	var sizes []int
	for _, p := range sold {
		sizes = append(sizes, p.Memories...)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	if len(sizes) == 0 {
		return Chip{}, &ChipError{name, "with which memory that part was sold is not known", partNames(short)}
	}
	var chosen []string
	if memory == 0 {
		memory = sizes[0]
		if len(sizes) > 1 {
			chosen = append(chosen, fmt.Sprintf("%d GiB, the smallest of %s", memory, listed(sizes, "GiB")))
		}
	} else if !slices.Contains(sizes, memory) {
		var names []string
		for _, size := range sizes {
			names = append(names, fmt.Sprintf("%s-%dgb", short, size))
		}
		if cores != 0 {
			return Chip{}, &ChipError{name,
				fmt.Sprintf("%s with %d GPU cores is not known to have been sold with %d GiB of memory", sold[0].Chip,
					cores, memory), partNames(short)}
		}
		return Chip{}, &ChipError{name, fmt.Sprintf("%s was not sold with %d GiB of memory", sold[0].Chip, memory),
			names}
	}
	var counts []int
	for _, p := range sold {
		if slices.Contains(p.Memories, memory) {
			counts = append(counts, p.Cores)
		}
	}
	slices.Sort(counts)
	counts = slices.Compact(counts)
	if len(counts) > 1 {
		chosen = append(chosen, fmt.Sprintf("%d GPU cores, the most of %s", counts[len(counts)-1],
			listed(counts, "cores")))
	}
	chip := Chip{Name: "Apple " + sold[0].Chip, Short: fmt.Sprintf("%s-%dgb", short, memory), Memory: memory,
		Cores:  counts[len(counts)-1],
		Chosen: strings.Join(chosen, "; ")}
	return chip, nil
}

func listed(xs []int, what string) string {
	var words []string
	for _, x := range xs {
		words = append(words, strconv.Itoa(x))
	}
	return strings.Join(words, ", ") + " " + what
}

func slug(chip string) string { return strings.ReplaceAll(strings.ToLower(chip), " ", "-") }

// ChipNames lists the chips as --chip takes them, without memory, in the order of chips.csv.
func ChipNames() []string {
	var names []string
	for _, p := range Parts() {
		if name := slug(p.Chip); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// partNames lists the parts of a chip by cores and memory.
func partNames(short string) []string {
	var names []string
	for _, p := range Parts() {
		for _, size := range p.Memories {
			if slug(p.Chip) == short {
				names = append(names, fmt.Sprintf("%s-%dcore-%dgb", short, p.Cores, size))
			}
		}
	}
	return names
}

// nearChips lists the chips that share the name's first word, or else all of them.
func nearChips(short string) []string {
	first, _, _ := strings.Cut(short, "-")
	var near []string
	for _, name := range ChipNames() {
		if family, _, _ := strings.Cut(name, "-"); family == first {
			near = append(near, name)
		}
	}
	if near == nil {
		near = ChipNames()
	}
	return near
}
