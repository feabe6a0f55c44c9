/** Markdown notes that supplement the help of metrics. The help of Kubernetes metrics comes from upstream. */
export const METRIC_NOTES: Readonly<Record<string, string>> = {
  pod_security_evaluations_total:
    'Counts all evaluations in `enforce` mode, but only denials in `audit` and `warn` mode. `subresource` is `other` for unknown subresources.',
  portcullis_scc_decisions_total:
    '`operation` is `create`, `update`, `ephemeralcontainers`, `resize`, `exec`, `attach` or `other`. `decision` is `allow`, `deny`, or `skip` for requests to which SCC admission does not apply. `scc` and `subject_type` (`user`, `serviceaccount`) are set for allowed requests.',
  portcullis_scc_validations_total: 'The labels are those of `portcullis_scc_decisions_total`.',
  portcullis_access_reviews_total: '`result` is `allowed`, `denied` or `error`.',
};
