package erasure

// SQLExportProfile shows tests which tables an export reads.
const SQLExportProfile = sqlExportProfile
