package messaging

// Kept and RetentionRules show tests which rows are kept for how long.
type Kept = kept

var RetentionRules = retentionRules
