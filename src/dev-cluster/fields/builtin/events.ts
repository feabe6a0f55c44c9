/** The types of events/v1. In the notation of notation.ts, as of Kubernetes 1.36. */
export const events = `
Event
  + meta/v1.TypeMeta
  metadata! meta/v1.ObjectMeta
  eventTime! micro-time
  series *EventSeries
  reportingController string
  reportingInstance string
  action string
  reason string
  regarding! core/v1.ObjectReference atomic
  related *core/v1.ObjectReference
  note string
  type string
  deprecatedSource! core/v1.EventSource
  deprecatedFirstTimestamp! time
  deprecatedLastTimestamp! time
  deprecatedCount int32
EventSeries
  count! int32
  lastObservedTime! micro-time
`;
