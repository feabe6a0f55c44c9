/** What there is to say of metrics beyond their help, which for those of Kubernetes is upstream's; in Markdown. */
export const METRIC_NOTES: Readonly<Record<string, string>> = {
  pod_security_evaluations_total:
    'Every evaluation of `enforce`, and denials of `audit` and `warn`; `subresource` is `other` for one that Kubernetes does not have.',
  portcullis_scc_decisions_total:
    '`operation` is `create`, `update`, `ephemeralcontainers`, `resize`, `exec`, `attach` or `other`; `decision` is `allow`, `deny`, or `skip` for what SCCs have nothing to do with; `scc` and `subject_type` (`user`, `serviceaccount`) are of what is allowed.',
  portcullis_scc_validations_total: 'Labels as those of `portcullis_scc_decisions_total`.',
  portcullis_access_reviews_total: '`result` is `allowed`, `denied` or `error`.',
};
