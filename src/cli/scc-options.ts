import { UserError } from '../config/files.ts';
import { dnsLabelErrors } from '../kube/names.ts';
import { quote } from '../kube/text.ts';
import type { Namespace } from '../kube/types.ts';
import {
  DEFAULT_EXEMPT_NAMESPACES,
  SCC_MODES,
  sccMode,
  type Compatibility,
  type NamespaceMode,
  type SccMode,
  type SccSettings,
} from '../policy/scc/mode.ts';
import { flag, list, mapped, oneOf, option, text, type Values, nonEmpty } from './options.ts';
import { inventoryOptions } from './inventory/inventory.ts';
import { DATA_AND_TABLE, outputOption } from './output/print.ts';

// The options that configure SCC admission, and the settings that follow from them.

/** The mode of a cluster whose settings do not name one. */
export const DEFAULT_SCC_MODE: SccMode = 'report';

const modeText = {
  help: 'Default SCC mode for namespaces without the label portcullis.dev/scc: enforce denies pods, report only warns, off disables SCC admission in the whole cluster',
  shown: DEFAULT_SCC_MODE,
};

/** The SCC options of commands that predict the creation of pods; without `--scc-mode`, the mode is an assumption. */
export const sccOptions = {
  'scc-mode': option('MODE', oneOf(SCC_MODES), undefined, modeText),
  'scc-exempt-namespaces': {
    ...mapped(
      list('NAME', optionalNamespaceName, { help: 'Namespaces without SCC admission, regardless of their labels' }),
      (names) => (names.length === 0 ? undefined : names.filter((name) => name !== '')),
    ),
    fallback: DEFAULT_EXEMPT_NAMESPACES.join(','),
  },
  'scc-compatibility': option('WITH', oneOf(['portcullis', 'openshift'] as const), 'portcullis', {
    help: 'Compatibility of SCC admission: openshift reproduces OpenShift exactly, portcullis deviates in the settings --scc-identity, --scc-broken and --scc-required',
  }),
  'scc-identity': option('GROUPS', oneOf(['accurate', 'openshift'] as const), undefined, {
    help: "Groups of a pod's service account: accurate (the default) includes system:authenticated, openshift does not",
  }),
  'scc-broken': option('WHAT', oneOf(['skip', 'refuse'] as const), undefined, {
    help: 'Handling of an invalid SCC: skip (the default) ignores the SCC, refuse denies all pods',
  }),
  'scc-required': list('SCC', text, { help: 'SCCs that must exist before any pod is admitted; none by default' }),
  'scc-prefer-user-namespaces': flag({
    help: 'Try SCCs that require a user namespace before other SCCs of equal priority and restrictions, for pods with a user namespace',
  }),
};

/** The name of a namespace. */
export function namespaceName(value: string): string {
  const [problem] = dnsLabelErrors(value);
  if (problem !== undefined) throw new UserError(`${quote(value)} is not a valid namespace name: ${problem}`);
  return value;
}

/** `--scc-exempt-namespaces=` exempts no namespace. */
function optionalNamespaceName(value: string): string {
  return value === '' ? value : namespaceName(value);
}

type SccValues = Values<typeof sccOptions>;

/** The settings that `serve` is expected to have. */
export interface ExpectedSettings extends SccSettings {
  /** Absent if `--scc-mode` gives the mode. */
  readonly modeFrom?: 'assumption';
}

/**
 * Returns the settings of SCC admission.
 * @throws {UserError} for options that contradict each other
 */
export function sccSettings(values: SccValues): ExpectedSettings {
  return {
    mode: values['scc-mode'] ?? DEFAULT_SCC_MODE,
    ...(values['scc-mode'] === undefined ? { modeFrom: 'assumption' } : {}),
    exemptNamespaces: values['scc-exempt-namespaces'] ?? DEFAULT_EXEMPT_NAMESPACES,
    compatibility: sccCompatibility(values),
    preferUserNamespaces: values['scc-prefer-user-namespaces'],
  };
}

const DEVIATIONS = ['scc-identity', 'scc-broken', 'scc-required'] as const;

function sccCompatibility(values: SccValues): Compatibility {
  const { 'scc-identity': identity, 'scc-broken': brokenScc } = values;
  if (values['scc-compatibility'] === 'openshift') {
    const given = DEVIATIONS.find((name) => (values[name]?.length ?? 0) > 0);
    if (given === undefined) return 'openshift';
    throw new UserError(
      `--${given} cannot be combined with --scc-compatibility=openshift, which allows no deviation from OpenShift`,
    );
  }
  return {
    requiredSccs: values['scc-required'],
    ...(identity === undefined ? {} : { identity }),
    ...(brokenScc === undefined ? {} : { brokenScc }),
  };
}

/** The expected SCC mode of a namespace. */
export interface ExpectedMode extends NamespaceMode {
  /** Absent if a label of the namespace or `--scc-mode` gives the mode. */
  readonly modeFrom?: 'assumption';
}

/** Returns the expected SCC mode of a namespace. */
export function expectedMode(
  namespace: Namespace,
  settings: Pick<ExpectedSettings, 'mode' | 'modeFrom' | 'exemptNamespaces'>,
): ExpectedMode {
  const result = sccMode(namespace, settings);
  if (settings.modeFrom === undefined) return result;
  const dependsOnMode = sccMode(namespace, { ...settings, mode: 'enforce' }).mode !== result.mode;
  return dependsOnMode ? { ...result, modeFrom: settings.modeFrom } : result;
}

/** The options of commands that evaluate pods in manifests. */
export const sccReviewOptions = {
  namespace: option('NAME', nonEmpty, undefined, { short: 'n', help: 'Namespace of objects without one' }),
  output: outputOption(DATA_AND_TABLE),
  ...inventoryOptions,
  ...sccOptions,
};
