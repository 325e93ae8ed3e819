package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/fit"
	"assay/internal/fleet"
	"assay/internal/logbook"
	"assay/internal/target"
	"assay/internal/text"
	"assay/internal/unit"
)

// askLimit is how long hosts may take to say how they are.
const askLimit = 60 * time.Second

// askPool asks all hosts how they are, at once.
func askPool(ctx context.Context, env *Env, pool *fleet.Hosts, paths []string) []fleet.View {
	ctx, stop := context.WithTimeout(ctx, askLimit)
	defer stop()
	views := make([]fleet.View, len(pool.Hosts))
	var wg sync.WaitGroup
	for i, h := range pool.Hosts {
		wg.Go(func() { views[i] = fleet.Look(ctx, dialHost(env), h, paths) })
	}
	wg.Wait()
	return views
}

// dryRun says which run would go where, and why.
func dryRun(ctx context.Context, env *Env, opts fleetOptions, pool *fleet.Hosts, tasks []fleet.Task) error {
	views := askPool(ctx, env, pool, opts.paths)
	placed := fleet.Place(tasks, views, func(string) map[string]bool { return nil }, measuredSpeed(ctx, env, opts))
	if opts.json {
		enc := json.NewEncoder(env.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(placed)
	}
	for _, v := range views {
		how := "away: " + v.Why
		if v.Up {
			how = fleet.Describe(v)
		}
		fmt.Fprintf(env.Stdout, "%s  %s\n", text.Line(v.Name), text.Line(how))
	}
	fmt.Fprintln(env.Stdout)
	never, shown := 0, 0
	for i, p := range placed {
		if p.Never {
			never++
		}
		if shown++; shown > 50 {
			continue
		}
		where := p.Host
		if where == "" {
			where = "-"
		}
		name := p.Task
		if tasks[i].Cell != "" && tasks[i].Cell != name {
			name += " (" + tasks[i].Cell + ")"
		}
		fmt.Fprintf(env.Stdout, "%s  %s  %s\n", text.Line(name), text.Line(where), text.Short(p.Why, 600))
		if p.Host != "" {
			for _, x := range p.Excluded {
				fmt.Fprintf(env.Stdout, "    not %s\n", text.Line(x))
			}
		}
	}
	if shown > 50 {
		fmt.Fprintf(env.Stdout, "… and %d more\n", shown-50)
	}
	if never > 0 {
		return status(fault.CannotTell)
	}
	return nil
}

// foresee rehearses the first run here on the double for each distinct Mac of the pool, and leaves out the hosts on
// which it does not fit, or on which that is not known.
func foresee(ctx context.Context, env *Env, opts fleetOptions, pool *fleet.Hosts, tasks []fleet.Task) error {
	if len(tasks) == 0 {
		return nil
	}
	if len(env.Witness) == 0 {
		return fault.Exit(errors.New("--fits: where this assay lies is not known, so that nothing can be rehearsed"),
			fault.Failed)
	}
	views := askPool(ctx, env, pool, nil)
	chips := map[string][]string{} // as --chip takes it → hosts
	excluded := map[string]string{}
	for _, v := range views {
		chip, _ := v.Chip()
		memory := v.Facts.Memory
		if memory == 0 {
			memory = v.Memory
		}
		if chip == "" || memory == 0 {
			excluded[v.Name] = "whether it fits is not known: the host does not say its chip and memory, and the " +
				"file does not"
			continue
		}
		name := fmt.Sprintf("%s-%dgb", strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(chip, "Apple ")), " ",
			"-"),
			memory>>30)
		sold, err := target.ParseChip(name)
		if err != nil {
			excluded[v.Name] = "whether it fits is not known: " + err.Error()
			continue
		}
		chips[sold.Short] = append(chips[sold.Short], v.Name)
	}
	if len(chips) > 0 {
		var names []string
		for n := range chips {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintf(env.Stderr, "fleet: rehearsing the first run here for %s\n", text.Line(strings.Join(names, ", ")))
		result, err := rehearseFits(ctx, env, names, tasks[0].Command)
		if err != nil {
			return err
		}
		for _, j := range result.Chips {
			if j.Answer == fit.Fits {
				continue
			}
			for _, h := range chips[j.Mac.Chip] {
				excluded[h] = fmt.Sprintf("%s: %s (rehearsed on the double)", j.Answer, j.Why)
			}
		}
	}
	for i := range tasks {
		tasks[i].Needs.Excluded = excluded
	}
	return nil
}

// rehearseFits asks `assay fits`, in a process of its own: what the script prints goes to standard error.
func rehearseFits(ctx context.Context, env *Env, chips, command []string) (*fit.Result, error) {
	words := append([]string{"fits", "--json", "--logbook", "off", "--chip", strings.Join(chips, ","), "--"},
		command...)
	cmd := exec.CommandContext(ctx, env.Witness[0], words...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = env.Dir, env.Environ, &out, env.Stderr
	err := cmd.Run()
	var result fit.Result
	if e := json.Unmarshal(out.Bytes(), &result); e != nil || len(result.Chips) == 0 {
		return nil, fault.Exit(fault.Hint(fmt.Errorf("--fits: the run could not be rehearsed here: %w",
			errors.Join(err, e)),
			"without --fits nothing is foreseen; --memory says what it takes"), fault.Failed)
	}
	return &result, nil
}

// measuredSpeed says how fast a chip is at what the queue runs: by what the logbook measured of the same script, a
// step's time; for chips on which it was not measured, by what their FP32 rates are to those on which it was; where
// it was measured nowhere, by the rates.
func measuredSpeed(ctx context.Context, env *Env, opts fleetOptions) fleet.Speed {
	ctx, stop := context.WithTimeout(ctx, recordLimit)
	defer stop()
	measured := map[string]map[string]float64{} // script → chip → seconds a step
	if path := logbookPath(env, opts.logbook); opts.logbook != "off" && logbook.Exists(path) {
		if book, err := logbook.OpenRead(ctx, path); err == nil {
			defer book.Close()
			t, err := book.Query(ctx, `SELECT r.script, r.chip, avg(f.value) FROM runs r JOIN figures f USING (id)
				WHERE f.name = 'step.time' AND f.basis = 'measured' AND f.value > 0 AND r.script <> '' AND r.chip <> ''
				GROUP BY r.script, r.chip`, 1000)
			for i := 0; err == nil && i < len(t.Rows); i++ {
				script, _ := t.Rows[i][0].(string)
				chip, _ := t.Rows[i][1].(string)
				seconds, _ := t.Rows[i][2].(float64)
				script = filepath.Base(script)
				if measured[script] == nil {
					measured[script] = map[string]float64{}
				}
				measured[script][bareChip(chip)] = seconds
			}
		}
	}
	rates := map[string]float64{}
	for _, p := range target.Parts() { // of several numbers of cores the most
		rates[bareChip(p.Chip)] = max(rates[bareChip(p.Chip)], p.TFLOPS)
	}
	return func(chip string, t fleet.Task) (float64, string) {
		chip = bareChip(chip)
		seen := measured[scriptOf(t.Command)]
		if s := seen[chip]; s > 0 {
			return s, unit.Seconds(s) + " a step, measured"
		}
		rate := rates[chip]
		if rate <= 0 {
			return 0, ""
		}
		work, n := 0.0, 0.0
		for other, s := range seen {
			if rates[other] > 0 {
				work, n = work+s*rates[other], n+1
			}
		}
		if n > 0 {
			return work / n / rate, fmt.Sprintf("%s a step, predicted from its %g TFLOPS", unit.Seconds(work/n/rate),
				rate)
		}
		return 1 / rate, fmt.Sprintf("%g TFLOPS, declared", rate)
	}
}

func bareChip(name string) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimSpace(name), "Apple "))
}

// scriptOf is the script among a command's words, "" where there is none.
func scriptOf(words []string) string {
	for _, w := range words {
		if strings.HasSuffix(w, ".py") {
			return filepath.Base(w)
		}
	}
	return ""
}
