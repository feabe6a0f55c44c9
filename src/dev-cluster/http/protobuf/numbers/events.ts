/** The numbers of the fields of events/v1. Printed by scripts/protobuf-numbers.ts. */
export const events = `
Event metadata eventTime series reportingController reportingInstance action reason regarding related note type deprecatedSource deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedCount
EventSeries count lastObservedTime
`;
