package twilio

import "strings"

// The GSM 03.38 default alphabet, and the characters that need an escape in it and so count twice.
const (
	gsmBasic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	gsmExtended = "^{}\\[~]|€\f"
)

// segments is the number of SMS that the carrier bills for body: 160 GSM-7 characters or 70 UTF-16 units fit in one,
// 153 or 67 in each part of several. A character of two units is never split between parts.
func segments(body string) int {
	units, whole, part := gsmUnits, 160, 153
	for _, r := range body {
		if gsmUnits(r) == 0 {
			units, whole, part = utf16Units, 70, 67
			break
		}
	}
	total, parts, used := 0, 1, 0
	for _, r := range body {
		n := units(r)
		total += n
		if used += n; used > part {
			parts, used = parts+1, n
		}
	}
	if total <= whole {
		return 1
	}
	return parts
}

// gsmUnits returns how many septets r takes, 0 if the alphabet lacks it.
func gsmUnits(r rune) int {
	switch {
	case strings.ContainsRune(gsmBasic, r):
		return 1
	case strings.ContainsRune(gsmExtended, r):
		return 2
	default:
		return 0
	}
}

func utf16Units(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}
