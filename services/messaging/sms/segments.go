package sms

import (
	"unicode/utf16"

	"paceline.internal/platform/letters"
)

// Encoding is the alphabet that a text travels in.
type Encoding string

// The two alphabets. One character outside GSM-7 moves the whole text to UCS-2, which more than halves its capacity.
const (
	GSM7 Encoding = "GSM-7"
	UCS2 Encoding = "UCS-2"
)

// Segmentation is the way that a text is cut for the air, which sets its cost.
type Segmentation struct {
	// Encoding is the alphabet of the whole text.
	Encoding Encoding
	// Count is the number of segments, which Twilio bills; 0 for an empty text.
	Count int
	// Units is the length: septets in GSM-7, UTF-16 code units in UCS-2.
	Units int
}

// Segments returns how a text will be cut: 160 septets alone or 153 each in GSM-7, 70 code units alone or 67 each in
// UCS-2. An escape pair or a surrogate pair is never cut in two, so a segment may stay one unit short.
func Segments(body string) Segmentation {
	if len(letters.Dearer(body)) > 0 {
		return cut(body, UCS2, 70, 67, utf16.RuneLen)
	}
	return cut(body, GSM7, 160, 153, letters.Septets)
}

// cut fills segments one character at a time. single is the capacity of a text that stands alone; several segments
// lose the room of the header that joins them and hold only multi each.
func cut(body string, encoding Encoding, single, multi int, width func(rune) int) Segmentation {
	s := Segmentation{Encoding: encoding}
	used := multi // as if a full segment came before the first
	for _, r := range body {
		w := width(r)
		s.Units += w
		if used+w > multi {
			s.Count++
			used = 0
		}
		used += w
	}
	if s.Units > 0 && s.Units <= single {
		s.Count = 1
	}
	return s
}
