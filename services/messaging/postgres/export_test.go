package postgres

// SQLExport shows tests which tables an export reads.
const SQLExport = sqlExport

// Waited shows tests how many have waited to share a transaction.
func (s *Store) Waited() int { return s.hot.Waited() }
