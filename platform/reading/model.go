package reading

import (
	_ "embed"
	"math"
	"strings"
	"unicode"
)

//go:generate go run ./train

// Buckets is the number of weights that a model has. Pieces of texts share them by their hash.
const Buckets = 1 << 19

// Model is a linear model over the pieces of a text's letters and words. Its weights are made by `go generate` from the texts of testdata.
type Model struct{ weights []byte }

//go:embed revocation.bin
var revocation []byte

//go:embed refusal.bin
var refusal []byte

// Revocation finds the texts by which a person may want no more of our texts.
var Revocation = Model{revocation}

// Refusal tells answers that are a no, or a not now, from all others.
var Refusal = Model{refusal}

// Score is above 0 where a text is rather of the model's kind: 2 is hardly ever wrong, -2 hardly ever missed.
func (m Model) Score(text string) float64 {
	found := Features(text)
	sum := 0
	for _, n := range found {
		sum += int(int8(m.weights[n])) //nolint:gosec // a weight is stored as its byte
	}
	return float64(sum) / Unit / math.Sqrt(float64(len(found)))
}

// Unit is the number of steps of a stored weight that make 1.
const Unit = 16

// Features returns the numbers of the weights that a text uses, each once: those of runs of two to five letters, of up to three words in a
// row, of pairs with a word between, of up to four kinds of words in a row, and of two kinds at most seven words apart.
func Features(text string) []uint32 {
	normal := Normalise(text)
	words := wordsOf(normal)
	letters := " " + strings.Join(words, " ") + " "
	f := finder{found: make([]uint32, 0, 8*len(letters))}
	var starts []int // of the letters, and the end
	for i := range letters {
		starts = append(starts, i)
	}
	starts = append(starts, len(letters))
	for n := 2; n <= 5; n++ {
		for i := 0; i+n < len(starts); i++ {
			f.add('c', letters[starts[i]:starts[i+n]])
		}
	}
	words = append(append([]string{"^"}, words...), "$")
	for i, w := range words {
		f.add('1', w)
		if i > 0 {
			f.add('2', words[i-1]+" "+w)
		}
		if i > 1 {
			f.add('-', words[i-2]+" "+w)
			f.add('3', words[i-2]+" "+words[i-1]+" "+w)
		}
	}
	kinds := append(append([]string{"^"}, classed(words[1:len(words)-1])...), "$")
	for i := range kinds {
		for n := 1; n <= 4 && i+n <= len(kinds); n++ {
			f.add('k', strings.Join(kinds[i:i+n], " "))
		}
	}
	for i, kind := range kinds {
		for _, other := range kinds[i+1 : min(i+8, len(kinds))] {
			if isKind(kind) && isKind(other) {
				f.add('p', kind+" "+other)
			}
		}
	}
	for _, r := range normal {
		if strings.ContainsRune(signs, r) {
			f.add('s', string(r))
		}
	}
	f.add('n', string(rune('a'+min(len(words), 14))))
	return f.found
}

// isKind reports whether a part of classed stands for kinds, which are capital letters.
func isKind(part string) bool { return 'A' <= part[0] && part[0] <= 'Z' }

// wordsOf returns the runs of letters of a normalised text, and 0 for each number. An apostrophe separates nothing.
func wordsOf(normal string) (words []string) {
	letter := false // of the last character
	for _, r := range normal {
		switch {
		case r == '\'':
			continue
		case unicode.IsDigit(r):
			if len(words) == 0 || letter || words[len(words)-1] != "0" {
				words = append(words, "0")
			}
		case inWord(r) && letter:
			words[len(words)-1] += string(r)
		case inWord(r):
			words = append(words, string(r))
		}
		letter = inWord(r)
	}
	return words
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }

// signs say something without a word; other emoji decorate.
const signs = "?🛑🚫⛔🔕📵🙅👎🖕✋❌😡🤬"

type finder struct {
	seen  [Buckets / 64]uint64 // a bit for each number
	found []uint32
}

func (f *finder) add(kind byte, piece string) {
	const offset, prime = 2166136261, 16777619 // of FNV-1a; hash/fnv copies each piece
	n := (offset ^ uint32(kind)) * prime
	for i := range len(piece) {
		n = (n ^ uint32(piece[i])) * prime
	}
	n = (n ^ n>>16) % Buckets
	if f.seen[n/64]&(1<<(n%64)) == 0 {
		f.seen[n/64] |= 1 << (n % 64)
		f.found = append(f.found, n)
	}
}
