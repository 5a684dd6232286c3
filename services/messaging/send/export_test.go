package send

// Waited shows tests how many have waited to share a transaction.
func (s *Store) Waited() int { return s.hot.Waited() }
