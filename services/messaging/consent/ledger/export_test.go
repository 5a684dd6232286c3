package ledger

// SQLExport shows tests which tables an export reads.
const SQLExport = sqlExport
