package pace

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/target"
)

// Rates are a chip's figures: FP32 operations a second, and bytes a second of its memory.
type Rates struct {
	FLOPS, Bytes float64
	Generation   int    // of the chip: 3 of an M3 Max
	Assumed      string // what of it is not the chip's own figure; "" where all is
}

// RatesOf looks a chip up among those that were sold. Where its own FP32 rate is not known it is taken from its cores
// and the rate a core of the same chip with another number of them, else of the same generation's: all cores of a
// generation compute alike, and differ in their clock by a seventh at most (M4 1470 MHz, M4 Max 1678 MHz:
// internal/target/chips.csv).
func RatesOf(chip target.Chip) (Rates, error) {
	name := strings.TrimPrefix(chip.Name, "Apple ")
	rows := target.Parts()
	i := slices.IndexFunc(rows, func(p target.Part) bool { return p.Chip == name && p.Cores == chip.Cores })
	if i < 0 {
		return Rates{}, fault.Hint(fmt.Errorf("time a step on %s with %d GPU cores: it is not in the table of chips",
			chip.Name, chip.Cores), "assay run --help names the chips that --chip takes")
	}
	part := rows[i]
	if part.Bandwidth == 0 {
		return Rates{}, unknownRate(part, "the bandwidth of its memory")
	}
	r := Rates{FLOPS: part.TFLOPS * 1e12, Bytes: part.Bandwidth * 1e9, Generation: part.Generation}
	if r.FLOPS != 0 {
		return r, nil
	}
	var model target.Part
	for _, p := range rows {
		if p.TFLOPS == 0 || p.Generation != part.Generation {
			continue
		}
		// the same chip's goes before another's
		if model.Chip == "" || p.Chip == part.Chip && model.Chip != part.Chip {
			model = p
		}
	}
	if model.Chip == "" {
		return Rates{}, unknownRate(part, "the FP32 rate of its GPU, and that of any chip of its generation")
	}
	r.FLOPS = model.TFLOPS * 1e12 / float64(model.Cores) * float64(part.Cores)
	r.Assumed = fmt.Sprintf("%.1f TFLOPS: %d cores at the rate of an %s's", r.FLOPS/1e12, part.Cores, model.Chip)
	return r, nil
}

func unknownRate(p target.Part, what string) error {
	return fault.Hint(fmt.Errorf("time a step on an Apple %s with %d GPU cores: %s is not known", p.Chip, p.Cores,
		what),
		"name an earlier chip with --chip, and take its time for a bound from above")
}

// Bound says what an operator's time is bounded by.
type Bound string

const (
	ByCompute   Bound = "compute"
	ByBandwidth Bound = "bandwidth"
	ByLaunching Bound = "launching" // of a whole step alone: the host starts kernels more slowly than they are done
)

// Share is an operator's part of a step.
type Share struct {
	Operator string
	Class    Class
	Calls    float64 // in one step
	Seconds  float64 // of the device, in one step
	Bound    Bound
}

// Sum is what a step's operators come to on a chip, by the medians of the table.
type Sum struct {
	Device  float64 // seconds of the device's work: each operator's FLOPs or bytes, whichever takes longer
	Kernels float64 // that the host starts
	Waits   float64 // of the host for the device
	Shares  []Share // of Device, longest first
	// Unknown are operators of which neither FLOPs nor bytes are known, and UnknownKernels how many kernels they are.
	// Their starting is in Kernels; their work is in nothing.
	Unknown        []string
	UnknownKernels float64
}

// bf16OnM1 is the share of the FP32 rate that bfloat16 products reach on an M1: 2.25 of 4.28 TFLOPS in a product of
// 4096 on an M1 Pro (zzc0721/torch-performance-test-data issue 191). Of other generations no figure was found.
const bf16OnM1 = 2.25 / 4.28

// Roofline adds operators up. ops are totals of so many steps; an operator's time is the longer of what its FLOPs take
// at the chip's FP32 rate and its bytes at the memory's bandwidth, each by the share of them that its class reaches.
// Half precision's operations are taken at the FP32 rate: float16 products reach it (13.29 and 13.27 TFLOPS on an M4
// Max: chsasank/device-benchmarks, README). bfloat16 ones do not on an M1: bf16OnM1.
func (t Table) Roofline(ops []evidence.RehearsedOp, steps int, chip Rates) Sum {
	var sum Sum
	per := 1 / float64(steps)
	for _, op := range ops {
		class := ClassOf(op.Operator)
		switch {
		case class == nothing:
			continue
		case class == waiting:
			sum.Waits += float64(op.Calls) * per
			continue
		}
		kernels := float64(op.Calls) * per
		sum.Kernels += kernels
		counted := op.FLOPs != nil && *op.FLOPs > 0
		if !counted && op.Bytes == nil || op.State == atlas.CPU.String() {
			sum.Unknown = append(sum.Unknown, op.Operator)
			sum.UnknownKernels += kernels
			continue
		}
		share := Share{Operator: op.Operator, Class: class, Calls: kernels, Bound: ByBandwidth}
		if op.Bytes != nil {
			share.Seconds = *op.Bytes * per / (chip.Bytes * t.Bandwidth[class].Mid)
		}
		if counted {
			efficiency := t.Compute[class].Mid
			if efficiency == 0 {
				efficiency = t.Compute[Matmul].Mid
			}
			work := *op.FLOPs
			if op.BF16FLOPs != nil && chip.Generation == 1 {
				work += *op.BF16FLOPs * (1/bf16OnM1 - 1)
			}
			if took := work * per / (chip.FLOPS * efficiency); took > share.Seconds {
				share.Seconds, share.Bound = took, ByCompute
			}
		}
		sum.Device += share.Seconds
		sum.Shares = append(sum.Shares, share)
	}
	slices.SortStableFunc(sum.Shares, func(a, b Share) int {
		switch {
		case a.Seconds > b.Seconds:
			return -1
		case a.Seconds < b.Seconds:
			return 1
		}
		return strings.Compare(a.Operator, b.Operator)
	})
	return sum
}
