package cli

import "testing"

func TestMLXLimit(t *testing.T) {
	l, err := mlxLimit("mlx.cache_limit", "2GiB")
	if err != nil || l.Cache == nil || *l.Cache != 2<<30 || l.Memory != nil || l.Wired != nil {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := mlxLimit("mlx.memory_limit", "0"); err != nil || *l.Memory != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range [][2]string{{"mlx.memory_limit", "much"}, {"mlx.memory_limit", "8GB"}, {"mlx.memory_limit",
		"-1"},
		{"mlx.wired_limit", "9999999999999GiB"}, {"mlx.threads", "2"}, {"mlx.memory_limit", "GiB"}} {
		if _, err := mlxLimit(bad[0], bad[1]); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}
