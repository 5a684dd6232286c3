package session

// StatusTexts returns statuses as a statement takes them.
func StatusTexts(statuses []Status) []string {
	all := make([]string, len(statuses))
	for i, status := range statuses {
		all[i] = string(status)
	}
	return all
}
