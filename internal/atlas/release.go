package atlas

import (
	"cmp"
	"strconv"
	"strings"
)

// parts reads a release, 2.8.0 or 2.8, as numbers. What is not a number ends it: 2.9.0rc1 is read as 2.9.0.
func parts(release string) (numbers [3]int, n int) {
	for field := range strings.SplitSeq(release, ".") {
		digits := len(field) - len(strings.TrimLeft(field, "0123456789"))
		v, err := strconv.Atoi(field[:digits])
		if err != nil || n == len(numbers) {
			break
		}
		numbers[n], n = v, n+1
		if digits != len(field) {
			break
		}
	}
	return numbers, n
}

// CompareReleases orders releases by their numbers: 2.9 before 2.10, and 2.8 before 2.8.0.
func CompareReleases(a, b string) int {
	x, nx := parts(a)
	y, ny := parts(b)
	for i := range x {
		if c := cmp.Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(nx, ny)
}

// Series is the first two numbers of a release: 2.8 of 2.8.1.
func Series(release string) string {
	fields := strings.SplitN(release, ".", 3)
	return strings.Join(fields[:min(2, len(fields))], ".")
}
