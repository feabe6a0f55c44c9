/**
 * The CEL form of the checks, for ValidatingAdmissionPolicies: the type of the expressions of one revision, and the parts
 * of expressions that checks share. The expressions read `variables.containers`, `variables.spec` and the other variables
 * of `SHARED_VARIABLES`. Their objects are those of the API server: defaulted, without nulls and unknown fields.
 * @see https://kubernetes.io/docs/reference/using-api/cel/
 */
import { celString } from '../../kube/cel.ts';

/** The expressions of a check at one revision. Equal expressions of several revisions are generated once. */
export interface CelRule {
  /**
   * Variables of the check by name, each of which may read those before it. They hold what differs between revisions, and
   * what the text reads several times.
   */
  readonly variables?: Readonly<Record<string, string>>;
  /** A bool: pods for which it is true pass. */
  readonly unless?: string;
  /** A bool: true if the pod passes. It uses no function that Kubernetes 1.30 lacks. */
  readonly passes: string;
  /** A string: the reason and the detail in parentheses. It is evaluated only if the pod does not pass. */
  readonly text: string;
}

/** The variables that the expressions of all checks may read, in order. `variables.pod` is the pod or pod template. */
export const SHARED_VARIABLES = {
  spec: 'variables.pod.?spec.orValue({})',
  annotations: 'variables.pod.?metadata.?annotations.orValue({})',
  // Only `containers` may be null: it is serialized even if it is absent.
  containers:
    'variables.spec.?initContainers.orValue([]) + (variables.spec.?containers.orValue(null) == null ? [] : variables.spec.containers) + variables.spec.?ephemeralContainers.orValue([])',
  volumes: 'variables.spec.?volumes.orValue([])',
  isWindows: 'variables.spec.?os.?name.orValue("") == "windows"',
  hasUserNamespace: '!variables.spec.?hostUsers.orValue(true)',
} as const;

/** The `unless` of revisions that pass pods with `spec.os.name` windows. */
export const WINDOWS = 'variables.isWindows';

/** The `unless` of revisions that pass pods with a user namespace. */
export const USER_NAMESPACE = 'variables.hasUserNamespace';

/** The names of the containers for which `passes`, an expression that reads the container `c`, is false. */
export function offendingNames(passes: string): string {
  return `variables.containers.filter(c, !(${passes})).map(c, c.name)`;
}

/** The string `container "a"` or `containers "a", "b"` for a list of names. The noun may be another one. */
export function celNames(names: string, noun = 'container'): string {
  return `(size(${names}) == 1 ? "${noun} \\"" : "${noun}s \\"") + ${names}.join("\\", \\"") + "\\""`;
}

/** The string of a non-empty list of strings in double quotes. */
export function celQuotedList(items: string): string {
  return `"\\"" + ${items}.join("\\", \\"") + "\\""`;
}

/** The distinct strings of a list of lists, sorted by bytes. Older API servers lack these functions; see `withoutListFunctions`. */
export function sortedSet(lists: string): string {
  return `${lists}.flatten().distinct().sort()`;
}

/**
 * Returns a text for API servers without the functions on lists that Kubernetes 1.34 added: values are neither sorted nor
 * distinct, and empty values are missing.
 */
export function withoutListFunctions(text: string): string {
  return text
    .replaceAll(
      '.flatten()',
      '.filter(l, size(l) > 0).map(l, l.join("\\n")).join("\\n").split("\\n").filter(text, text != "")',
    )
    .replaceAll('.distinct()', '')
    .replaceAll('.sort()', '');
}

/** A choice between singular and plural by the size of a list. */
export function celPlural(list: string, one: string, many: string): string {
  return `(size(${list}) == 1 ? ${celString(one)} : ${celString(many)})`;
}

/** A rule for the security contexts of the pod and of its containers. */
interface SetterRule {
  /** The prefix of the names of variables. */
  readonly name: string;
  /** Returns a bool that is true if the security context of an owner passes: that of `variables.spec` or of `c`. */
  passes(owner: string): string;
}

/** The expressions for a rule of security contexts. */
interface SetterExpressions {
  readonly passes: string;
  /** A list of the offending owners, such as `pod` and `container "a"`. */
  readonly setters: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Returns the sorted set of a string of each offending owner. */
  values(value: (owner: string) => string): string;
}

export function setterRule({ name, passes }: SetterRule): SetterExpressions {
  const pod = passes('variables.spec');
  const names = `variables.${name}Containers`;
  return {
    passes: `${pod} && variables.containers.all(c, ${passes('c')})`,
    setters: `variables.${name}Setters`,
    variables: {
      [`${name}Containers`]: offendingNames(passes('c')),
      [`${name}Setters`]: `(${pod} ? [] : ["pod"]) + (size(${names}) == 0 ? [] : [${celNames(names)}])`,
    },
    values: (value) =>
      sortedSet(
        `[${pod} ? [] : [${value('variables.spec')}], variables.containers.filter(c, !(${passes('c')})).map(c, ${value('c')})]`,
      ),
  };
}
