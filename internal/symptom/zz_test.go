package symptom

import (
	"fmt"
	"testing"
)

func TestZ(t *testing.T) {
	for _, p := range must().patterns {
		if shortest(p.anchors) < 9 {
			fmt.Println(p.rule.Name, "|", p.anchors, "|", p.re)
		}
	}
	fmt.Println(len(must().patterns), len(must().rules), len(must().finder.out), must().finder.width)
}
