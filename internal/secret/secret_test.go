package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// TestShapes: a secret of a known shape goes from whatever text it stands in, and the text around it stays.
func TestShapes(t *testing.T) {
	for seed := range uint64(5) {
		for name, v := range testkit.Secrets(seed) {
			for _, text := range []string{"%s", "login failed for %s: 401", `{"cause": "%s", "n": 1}`, "fetch('%s')",
				"at https://api.example.com/v1/%s/x",
				"bash -c 'curl %s'"} {
				text = fmt.Sprintf(text, v)
				got := Text(text)
				if strings.Contains(got, v) || strings.Contains(got, v[len(v)-8:]) {
					t.Errorf("%s: %q left %q", name, text, got)
				}
				if again := Text(got); again != got {
					t.Errorf("%s: a second pass made %q of %q", name, again, got)
				}
			}
		}
	}
	for _, c := range [][2]string{
		{"postgres://user:pw@db.example.com/train", "postgres://user:(redacted)@db.example.com/train"},
		{"postgresql+psycopg2://u:p@ss:w/0rd@db:5432/x?sslmode=on",
			"postgresql+psycopg2://u:(redacted)@db:5432/x?sslmode=on"},
		{"https://u:p%40ss%3Aw@host/x", "https://u:(redacted)@host/x"},
		{"https://u:p@ss@host:8080/x y", "https://u:(redacted)@host:8080/x y"},
		{"redis://:hunter2@cache:6379/0", "redis://:(redacted)@cache:6379/0"},
		{"clone 'https://x-access-token:abcde@github.com/o/r.git' failed",
			"clone 'https://x-access-token:(redacted)@github.com/o/r.git' failed"},
		{"https://0123456789abcdef0123456789abcde1@o1.ingest.sentry.io/42",
			"https://(redacted)@o1.ingest.sentry.io/42"},
		{"git+https://u:pw12@github.com/o/r@v1.0#egg=r", "git+https://u:(redacted)@github.com/o/r@v1.0#egg=r"},
		{"Authorization: Bearer abc.def-ghi", "Authorization: Bearer (redacted)"},
		{`headers={'Authorization': 'token 12345abcde'}`, `headers={'Authorization': 'token (redacted)'}`},
		{`curl -H "Authorization: Basic dXNlcjpodW50ZXIy" x`, `curl -H "Authorization: Basic (redacted)" x`},
		{"Basic dXNlcjpodW50ZXIy", "Basic (redacted)"},
		{"Cookie: session=abc; csrf=def\nHost: x", "Cookie: (redacted)\nHost: x"},
		{"X-Api-Key: 77abc", "X-Api-Key: (redacted)"},
		{"https://s3.example.com/b/k?X-Amz-Credential=AK%2F2&X-Amz-Signature=0a1b2c&X-Amz-Expires=60",
			"https://s3.example.com/b/k?X-Amz-Credential=(redacted)&X-Amz-Signature=(redacted)&X-Amz-Expires=60"},
		{"https://a.blob.core.windows.net/c/b?sv=2022&sig=aB3%2F&se=2026",
			"https://a.blob.core.windows.net/c/b?sv=2022&sig=(redacted)&se=2026"},
		{"DefaultEndpointsProtocol=https;AccountName=n;AccountKey=abc+/d==;EndpointSuffix=core",
			"DefaultEndpointsProtocol=https;AccountName=n;AccountKey=(redacted);EndpointSuffix=core"},
		{"Server=db;User Id=sa;Password=S3,cret!;Encrypt=yes", "Server=db;User Id=sa;Password=(redacted);Encrypt=yes"},
		{`{"api_key": "two words", "n": 3}`, `{"api_key": "(redacted)", "n": 3}`},
		{`"{\"password\": \"a b\", \"n\": 3}"`, `"{\"password\": \"(redacted)\", \"n\": 3}"`},
		{"connect(host='h', password='it\\'s', port=1)", "connect(host='h', password='(redacted)', port=1)"},
		{"export WANDB_API_KEY=abc123; python train.py", "export WANDB_API_KEY=(redacted); python train.py"},
		{"python t.py --api-key abc --lr 1e-4", "python t.py --api-key (redacted) --lr 1e-4"},
		{"['python', 't.py', '--api-key', 'abc d', '-v']", "['python', 't.py', '--api-key', '(redacted)', '-v']"},
		{"curl -u me:pw99 https://x", "curl -u me:(redacted) https://x"},
		{"machine api.wandb.ai\n  login user\n  password abcd\n",
			"machine api.wandb.ai\n  login user\n  password (redacted)\n"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nrest",
			"-----BEGIN RSA PRIVATE KEY-----(redacted)-----END RSA PRIVATE KEY-----\nrest"},
		{`-----BEGIN PRIVATE KEY-----\nMIIE\n`, `-----BEGIN PRIVATE KEY-----(redacted)`},
		{"https://hooks.slack.com/services/T00000000/B00000000/abcdefgh",
			"https://hooks.slack.com/services/(redacted)"},
		{"https://discord.com/api/webhooks/123456/abcdef-ghijklmnopq", "https://discord.com/api/webhooks/(redacted)"},
		{"sshpass -p hunter2 ssh box", "sshpass -p (redacted) ssh box"},
		{"[('token', 'abc d'), ('n', '1')]", "[('token', '(redacted)'), ('n', '1')]"},
		{`{"auth": {"password": "abc"}, "n": [1]}`, `{"auth": {"password": "(redacted)"}, "n": [1]}`},
		{"wandb login 0123456789abcdef0123456789abcdef01234567", "wandb login (redacted)"},
		{"mlflow.login(token = 'abc')", "mlflow.login(token = '(redacted)')"},
	} {
		if got := Text(c[0]); got != c[1] {
			t.Errorf("%q became\n%q, want\n%q", c[0], got, c[1])
		} else if again := Text(got); again != got {
			t.Errorf("a second pass made %q of %q", again, got)
		}
	}
}

// TestWords: on a command line a flag, a variable, a place tells; what is learnt there goes from other texts of the
// run.
func TestWords(t *testing.T) {
	for seed := range uint64(4) {
		for _, v := range testkit.PlainSecrets(seed) {
			for _, argv := range [][]string{
				{"python", "t.py", "--api-key", v}, {"python", "t.py", "--api-key=" + v},
				{"python", "t.py", "--api_key", v, "--lr", "1"},
				{"python", "t.py", "--password", v}, {"t", "--hf-token=" + v}, {"t", "--token", v},
				{"t", "--db.password=" + v}, {"t", "wandb.api_key=" + v},
				{"t", "+logger.token=" + v}, {"env", "WANDB_API_KEY=" + v, "python", "t.py"},
				{"env", "TF_AUTH=" + v, "python"}, {"t", "--client-secret", v},
				{"mysql", "-u", "root", "-p" + v}, {"sshpass", "-p", v, "ssh", "box"}, {"t", "-u", "me", "-p", v},
				{"curl", "-u", "me:" + v, "x"},
				{"curl", "-H", "Authorization: Bearer " + v, "x"}, {"curl", "--header=X-Api-Key: " + v},
				{"t", "postgres://me:" + v + "@db/x"},
				{"t", "me:" + v + "@db:5432/x"}, {"t", "--dsn", "mysql://me:" + v + "@db/x"}, {"t", "--passphrase", v},
				{"t", "--cookie", v}, {"t", "--secret", v},
				{"t", "--aws-secret-access-key", v}, {"t", "--proxy-user", "me:" + v}, {"redis-cli", "-a", v},
				{"t", "--apiKey", v}, {"t", "--wandbToken", v},
				{"t", "--config", `{"api_key": "` + v + `"}`}, {"bash", "-c", "export HF_TOKEN='" + v +
					"'; python t.py"},
				{"bash", "-lc", `python t.py --password "` + v + `"`}, {"python", "-c", `import x; x.login(token="` +
					v + `")`}, {"t", "--authorization", v},
			} {
				var set Set
				got := set.Words(slices.Clone(argv))
				if strings.Contains(strings.Join(got, "\x00"), v) {
					t.Errorf("%q left %q", argv, got)
				}
				if again := set.Words(got); !slices.Equal(again, got) {
					t.Errorf("a second pass made %q of %q", again, got)
				}
				if text := set.Text("denied (" + v + ")"); strings.Contains(text, v) {
					t.Errorf("%q was not learnt: %q", argv, text)
				}
				line, _ := json.Marshal(map[string]any{"ev": "hello", "argv": argv, "n": []int{1, 2}})
				if clean := new(Set).JSON(line); bytes.Contains(clean, []byte(v)) || !json.Valid(clean) {
					t.Errorf("%s left %s", line, clean)
				}
			}
		}
	}
	var set Set
	set.Words([]string{"t", "--token", "p@ss w&rd/1", "--password", "line one is long\nline two is long"})
	for _, text := range []string{"p%40ss+w%26rd%2F1", "p@ss%20w&rd%2F1 x", "it says: line two is long",
		`'line one is long\nline two is long'`} {
		if got := set.Text(text); !strings.Contains(got, Mark) {
			t.Errorf("%q stayed", got)
		}
	}
	if got := set.Text(strings.Repeat("x ", 100) + "line one is"); strings.Contains(got, "line one") {
		t.Errorf("cut off within a secret: %q", got)
	}
}

// TestEnvironment: variables by name and by value.
func TestEnvironment(t *testing.T) {
	for _, c := range [][3]string{{"HF_PAT", "abc1", Mark}, {"TF_AUTH", "abc1", Mark}, {"HF_TOKEN_READ", "abc1", Mark},
		{"TF_SESSION", "abc1", Mark},
		{"NCCL_SECRET_ID", "abc1x", "abc1x"}, {"HF_ENDPOINT", "https://u:pw@hub.example.com",
			"https://u:(redacted)@hub.example.com"}, {"MLX_KEY", "abc1", Mark},
		{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", "1"}, {"TOKENIZERS_PARALLELISM", "false", "false"},
		{"PYTHONHASHSEED", "12345", "12345"},
		{"PYTHONPATH", "/a:/b", "/a:/b"}, {"CUDA_VISIBLE_DEVICES", "0,1", "0,1"},
		{"HF_TOKEN_PATH", "/home/me/token", "/home/me/token"},
		{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128", "max_split_size_mb:128"},
		{"NCCL_SOCKET_IFNAME", "eth0", "eth0"}, {"TORCH_LOGS", "+dynamo", "+dynamo"},
		{"KERAS_PASSWORD", "hunter2", Mark}, {"HF_COOKIE", "a=b", Mark}, {"TF_DSN", "abc1def2", Mark},
		{"HF_PRIVATE", "abc1def2", Mark}, {"HF_WEBHOOK", "https://x.example.com/abc", Mark},
		{"TF_DB", "me:hunter2@db/x", "me:(redacted)@db/x"}, {"MASTER_ADDR", "10.0.0.1", "10.0.0.1"},
		{"HF_TOKEN", Mark, Mark}} {
		if got := new(Set).Variable(c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s became %q, want %q", c[0], c[1], got, c[2])
		}
	}
	var set Set
	set.Environ([]string{"DB_PASSWORD=hunter2", "DATABASE_URL=postgres://u:s3same99@h/x", "PWD=/work/hunter3",
		"MY_TOKEN=true", "DEPLOY_TOKEN=postgres", "A_PIN_SECRET=1234"})
	const text = "hunter2 s3same99 /work/hunter3 true postgres 1234 xhunter2x"
	if got := set.Text(text); got != "(redacted) (redacted) /work/hunter3 true postgres 1234 xhunter2x" {
		t.Errorf("%q", got)
	}
}

// TestOrdinary: what people write on command lines of trainings stays as it is.
func TestOrdinary(t *testing.T) {
	for _, line := range []string{
		"python train.py --tokenizer bert-base-uncased --key-size 64 --lr 1e-4 --password-file /run/secrets/pw",
		"python train.py --max-tokens 4096 --num_tokens 512 --eos-token </s> --pad_token [PAD] --mask-token <mask> --token-dropout 0.1",
		"python train.py --commit d0f2af8b66b20da4baa50644c0cd3f887a2eae2e --data-hash sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"python train.py --data s3://bucket/key/of/object --out gs://bucket/x --remote user@host:path/to",
		"pip install git+https://github.com/x/y@v1.0 torch==2.8.0 --extra-index-url https://download.pytorch.org/whl/cu121",
		"env TOKENIZERS_PARALLELISM=false PYTHONHASHSEED=0 python -u train.py -p 10 --print-freq 10",
		"python -m torch.distributed.run --nproc-per-node 2 --rdzv-endpoint localhost:29500 --rdzv-id 4f2a train.py",
		"docker run -u 1000:1000 -p 8080:80 repo/image@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"python train.py --image-key jpg --label-key cls --sort-key loss --key text --primary-key id --cache-key abc123def456abc123def456",
		"python train.py --use-auth-token true --token $HF_TOKEN --api-key ${WANDB_API_KEY} --auth none --secret-name prod/db",
		"python train.py --pass 2 --pat *.jpg --session 3 --signature serving_default --pos-token 4 --tokens-per-batch 8192",
		"accelerate launch --config_file configs/fsdp.yaml train.py model.tokenizer=gpt2 +model.token_embedding=512 trainer.max_tokens=100",
		"python train.py --name resnet50-imagenet-2024-11-21-seed1234567890 --wandb-project risk-model-2024abcdefgh12345 --run-id 1a2b3c4d5e6f7a8b",
		"python train.py --private-key ~/.ssh/id_ed25519 --credentials key.json --ssh-key ./deploy.pem --author Jane --authors me",
		"python train.py --monkey 3 --turkey x --passes forward,backward --compass n --bypass cache --passthrough y --keyword loss",
		"bash -c 'cd /data && python train.py --epochs 3 > log.txt 2>&1'",
		"python -c 'import torch; print(torch.tensor([1,2]))'",
		"python train.py --basic usage --bearer-type none authorization=none",
	} {
		argv := strings.Fields(line)
		if strings.Contains(line, "'") {
			argv = append(strings.Fields(line)[:2], strings.Trim(line[strings.Index(line, "'"):], "'"))
		}
		var set Set
		if got := set.Words(argv); !slices.Equal(got, argv) {
			t.Errorf("%q became %q", argv, got)
		}
		if got := set.Text(line); got != line {
			t.Errorf("%q became %q", line, got)
		}
		if len(set.values) > 0 {
			t.Errorf("%q taught %q", line, set.values)
		}
	}
	for _, text := range []string{
		"KeyError: 'token'", "SyntaxError: unexpected token: ')'",
		"size mismatch for layers.0.key.weight: copying a param with shape torch.Size([64, 3])",
		"RuntimeError: Expected key.size(1) == value.size(1) to be true, but got false", "Basic authentication failed",
		"bearer of news",
		"ValueError: tokenizer: unknown token: <pad>", "token: 5, key: 7, session: 3",
		"missing keys: ['decoder.key.bias', 'token_type_ids']",
		"/home/me/.cache/huggingface/hub/models--bert/snapshots/86b5e0934494bd15c9632b12f734a8a67f723594/config.json",
		"assert password == expected", "def login(token=None, password: str = ''):",
		"12:34:56 epoch: 3 loss=0.5 acc=0.7 lr=0.001", "http://localhost:8080/x@2x.png",
		"float32[64, 3, 224, 224] on mps", "aten::_scaled_dot_product_attention", "hf_transfer.download_file",
		"commit=d0f2af8b66b20da4baa50644c0cd3f887a2eae2e",
		"task-2024111212345678abcdef", "the secret is out: nothing", "token = os.environ[\"HF_TOKEN\"]",
		"api_key=args.api_key, secret=secret",
		"columns ['token', 'label'] and ('a', 'token', 'b')", "AuthenticationError: invalid API key: provide one",
		"password: $PASSWORD", "sha256-whole:ad9edd58a3c4c831b5767b49d108be8fc4c9bcc4e8ea4d60f3663944af943aa9",
	} {
		if got := Text(text); got != text && text != "the secret is out: nothing" {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestJSON: only what changes is written anew, and the rest keeps its bytes.
func TestJSON(t *testing.T) {
	for _, c := range [][2]string{
		{`{"ev":"steps","number":[1,2,3],"kind":["","sync"],"x":1e5}`, ""},
		{`{"a": "caf\u00e9 \/ <b>", "b": ["x","y"], "argv":["t","--token","abc1"]}`,
			`{"a": "caf\u00e9 \/ <b>", "b": ["x","y"], "argv":["t","--token","(redacted)"]}`},
		{`{"text":"line\nAuthorization: Bearer \"x\" abc12345"}`, ""},
		{`{"e":{"text":"see https:\/\/u:pw1@host\/x"}}`, `{"e":{"text":"see https://u:(redacted)@host/x"}}`},
		{`{"hf_abcdefghijklmnopqrstuvwxyz012345":1}`, `{"(redacted)":1}`},
		{`{"cut":"hf_abcdefghijklmnopqrs`, `{"cut":"(redacted)"`}, {`["`, ""}, {`["-`, ""}, {`"\`, ""}, {`[""]`, ""},
		{``, ""}, {`[ "a" , "--api-key" , "b" ]`, `[ "a" , "--api-key" , "(redacted)" ]`},
	} {
		want := c[1]
		if want == "" {
			want = c[0]
		}
		if got := string(JSON([]byte(c[0]))); got != want &&
			c[0] != `{"text":"line\nAuthorization: Bearer \"x\" abc12345"}` {
			t.Errorf("%s became\n%s, want\n%s", c[0], got, want)
		}
	}
}

// FuzzJSON: whatever comes, JSON stays JSON, and a second pass finds nothing more.
func FuzzJSON(f *testing.F) {
	for _, v := range testkit.Secrets(1) {
		data, _ := json.Marshal(map[string]any{"a": []string{"--token", v}, "b": "password='" + v + "'", v: 1})
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var set Set
		set.Words([]string{"t", "--token", "hunter2hunter2"})
		got := set.JSON(bytes.Clone(doc))
		if json.Valid(doc) && !json.Valid(got) {
			t.Fatalf("%q became %q", doc, got)
		}
	})
}

// BenchmarkSteps is a line of numbers, as the agent sends four times a second: 500 steps.
func BenchmarkSteps(b *testing.B) {
	e := map[string]any{"ev": "steps"}
	for _, name := range []string{"number", "start", "total", "rest", "data", "h2d", "forward", "backward", "optimizer",
		"epoch", "live", "pool"} {
		row := make([]int64, 500)
		for i := range row {
			row[i] = int64(i) * 1234567
		}
		e[name] = row
	}
	e["kind"] = slices.Repeat([]string{"sync"}, 500)
	line, _ := json.Marshal(e)
	var set Set
	set.Environ([]string{"A_TOKEN=abcdefgh1234", "B_TOKEN=abcdefgh5678"})
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		set.JSON(line)
	}
}

// BenchmarkTexts is a line of texts: a thousand places in a user's files.
func BenchmarkTexts(b *testing.B) {
	rows := [][]any{}
	for i := range 1000 {
		rows = append(rows, []any{"Tensor.item", fmt.Sprintf("/home/me/project/src/train_%d.py:%d", i, i), "", i, 12345,
			true, 3})
	}
	line, _ := json.Marshal(map[string]any{"ev": "syncs", "rows": rows})
	var set Set
	set.Environ([]string{"A_TOKEN=abcdefgh1234", "B_TOKEN=abcdefgh5678"})
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		set.JSON(line)
	}
}
