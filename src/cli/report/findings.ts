import type { ManifestObject } from '../../config/manifests.ts';
import { invalidValue, formatFieldError, type FieldError } from '../../kube/field-error.ts';
import type { NamespacePolicy } from '../../policy/psa/namespace-policy.ts';
import { SCC_MODE_LABEL, SCC_MODES, sccModeOf } from '../../policy/scc/mode.ts';
import { printPolicy, type Mode } from '../../policy/psa/policy.ts';
import { checkFix, evaluatePod, type Violation } from '../../policy/pss/index.ts';
import { parseFieldPath } from './field-path.ts';
import { labelsOf } from './identity.ts';
import { completed, podIn } from './pod.ts';
import type { Finding, OffendingField } from './types.ts';

/** From the strongest. */
export const MODES_BY_STRENGTH: readonly Mode[] = ['enforce', 'warn', 'audit'];

const LABEL_FIXES: ReadonlyMap<string, string> = new Map([
  ['scc-label', `Use one of ${SCC_MODES.join(', ')}, in lower case.`],
  ['labels', 'Use a level (privileged, baseline, restricted) or a version (latest, v1.N), in lower case.'],
]);

/** What the pod of an object violates, each once: in the strongest mode in which it counts. */
export function podFindings(object: ManifestObject, path: readonly string[], policies: NamespacePolicy): Finding[] {
  const { pod, path: podPath } = podIn(object.value, path);
  const judged = completed(pod);
  const findings = new Map<string, Finding>();
  for (const mode of MODES_BY_STRENGTH) {
    const policy = printPolicy(policies[mode]);
    for (const violation of evaluatePod(judged, { ...policies[mode], fields: true }).violations) {
      const key = JSON.stringify([violation.check, violation.detail]);
      if (!findings.has(key)) findings.set(key, { mode, policy, ...findingOf(object, podPath, violation) });
    }
  }
  return [...findings.values()];
}

/** What is wrong with the labels of a Namespace, for which the API server would refuse it. */
export function labelFindings(object: ManifestObject, { errors }: NamespacePolicy): Finding[] {
  return errors.map((error) => {
    const violation = { check: 'labels', reason: 'invalid label', detail: formatFieldError(error), fields: [error] };
    return { mode: 'enforce', ...findingOf(object, [], violation) };
  });
}

/** What is wrong with the label of a Namespace that says its mode of SCCs. */
export function sccLabelFindings(object: ManifestObject): Finding[] {
  const label = labelsOf(object.value)[SCC_MODE_LABEL];
  if (label == null) return [];
  const field = fieldOf(object, `metadata.labels[${SCC_MODE_LABEL}]`);
  const finding = {
    ...findingOf(object, [], { check: 'scc-label', reason: 'invalid label', detail: '' }),
    fields: [field],
  };
  // YAML has words such as off that are no texts unless they are quoted.
  if (typeof label !== 'string') {
    const detail = formatFieldError(invalidValue(field.path, label, 'must be a string: put it in quotes'));
    return [{ mode: 'enforce', ...finding, detail }];
  }
  const namespace = { metadata: { labels: { [SCC_MODE_LABEL]: label } } };
  // Nobody refuses it: it counts as the strictest.
  const { problem } = sccModeOf(namespace, { mode: 'report', exemptNamespaces: [] });
  return problem === undefined ? [] : [{ mode: 'warn', ...finding, detail: problem }];
}

function findingOf(object: ManifestObject, podPath: readonly string[], violation: Violation): Omit<Finding, 'mode'> {
  const { check, reason, detail, fields = [] } = violation;
  const paths = fields.length === 0 ? [''] : fields.map(({ path }: FieldError) => path);
  return {
    check,
    reason,
    detail,
    remedy: LABEL_FIXES.get(check) ?? checkFix(check),
    fields: paths.map((path) => fieldOf(object, [...podPath, path].filter((part) => part !== '').join('.'))),
  };
}

function fieldOf(object: ManifestObject, path: string): OffendingField {
  return { path, file: object.document.file, ...object.positionOf(parseFieldPath(path)) };
}
