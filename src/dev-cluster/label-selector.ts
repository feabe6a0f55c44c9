import { labelKeyErrors, labelValueErrors } from '../kube/names.ts';
import { invalidValue, formatFieldError } from '../kube/field-error.ts';
import { badRequest, ApiError } from '../kube/status.ts';

/** Says whether labels are selected. */
export type LabelSelector = (labels: Readonly<Record<string, string>>) => boolean;

const SYMBOLS = ['=', '==', '!=', '!', '(', ')', ',', '>', '<'];
const BINARY_OPERATORS = ['in', 'notin', '=', '==', '!=', 'gt', 'lt'];

interface Token {
  readonly kind: 'name' | 'symbol' | 'word' | 'end';
  readonly text: string;
}

/**
 * Reads the `labelSelector` of a query: `a=b,c in (d,e),!f`. Throws ApiError 400.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/labels/selector.go
 */
export function parseLabelSelector(text: string): LabelSelector {
  try {
    const requirements = createParser(tokensOf(text)).all();
    return (labels) => requirements.every((requirement) => requirement(labels));
  } catch (error) {
    if (error instanceof SyntaxError) throw new ApiError(badRequest(error.message), { cause: error });
    throw error;
  }
}

/** Words are `in` and `notin`, which are names where a value or key stands. */
function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (const [part] of text.matchAll(/[=!<>]+|[(),]|[^\s=!<>(),]+/g)) {
    if (/^[=!<>]/.test(part)) tokens.push(...symbolsOf(part));
    else if (SYMBOLS.includes(part)) tokens.push({ kind: 'symbol', text: part });
    else tokens.push({ kind: part === 'in' || part === 'notin' ? 'word' : 'name', text: part });
  }
  return [...tokens, { kind: 'end', text: '' }];
}

/** The longest symbols first: `!=` is one, `!!` is two. */
function symbolsOf(run: string): Token[] {
  const tokens: Token[] = [];
  let rest = run;
  while (rest !== '') {
    const text = SYMBOLS.includes(rest.slice(0, 2)) ? rest.slice(0, 2) : rest.slice(0, 1);
    tokens.push({ kind: 'symbol', text });
    rest = rest.slice(text.length);
  }
  return tokens;
}

function createParser(tokens: readonly Token[]): { all(): LabelSelector[] } {
  let position = 0;
  const end: Token = { kind: 'end', text: '' };
  const peek = (): Token => tokens[position] ?? end;
  const take = (): Token => {
    const token = peek();
    position += 1;
    return token;
  };
  const is = (symbol: string): boolean => peek().kind === 'symbol' && peek().text === symbol;
  const isName = (): boolean => peek().kind === 'name' || peek().kind === 'word';

  const valueList = (): string[] => {
    const open = take();
    if (open.text !== '(') throw new SyntaxError(`found '${open.text}' expected: '('`);
    const values: string[] = [];
    let value = '';
    for (;;) {
      const token = take();
      if (token.kind === 'name' || token.kind === 'word') {
        value = token.text;
        if (!is(',') && !is(')')) throw new SyntaxError(`found '${peek().text}', expected: ',' or ')'`);
      } else if (token.text === ',' || token.text === ')') {
        values.push(value);
        value = '';
        if (token.text === ')') return values;
      } else throw new SyntaxError(`found '${token.text}', expected: ',', or identifier`);
    }
  };
  const exactValue = (): string => {
    if (peek().kind === 'end' || is(',')) return '';
    const token = take();
    if (token.kind === 'symbol') throw new SyntaxError(`found '${token.text}', expected: identifier`);
    return token.text;
  };
  const requirement = (): LabelSelector => {
    const negated = is('!');
    if (negated) take();
    const { kind, text: key } = take();
    if (kind === 'symbol' || kind === 'end') throw new SyntaxError(`found '${key}', expected: identifier`);
    check('<nil>', key, labelKeyErrors(key));
    if (peek().kind === 'end' || is(',')) return (labels) => Object.hasOwn(labels, key) !== negated;
    const operator = take().text;
    if (operator === 'in' || operator === 'notin') return among(key, operator, checked(key, valueList()));
    if (operator === '>' || operator === '<') return compares(key, operator, exactValue());
    if (operator === '=' || operator === '==') return among(key, 'in', checked(key, [exactValue()]));
    if (operator === '!=') return among(key, 'notin', checked(key, [exactValue()]));
    throw new SyntaxError(`found '${operator}', expected: ${BINARY_OPERATORS.join(', ')}`);
  };
  const wrapped = (): LabelSelector => {
    try {
      return requirement();
    } catch (error) {
      if (error instanceof SyntaxError)
        throw new SyntaxError(`unable to parse requirement: ${error.message}`, { cause: error });
      throw error;
    }
  };

  return {
    all() {
      const requirements: LabelSelector[] = [];
      while (peek().kind !== 'end') {
        if (!isName() && !is('!')) {
          throw new SyntaxError(`found '${peek().text}', expected: !, identifier, or 'end of string'`);
        }
        requirements.push(wrapped());
        const separator = take();
        if (separator.kind === 'end') break;
        if (separator.text !== ',') {
          throw new SyntaxError(`found '${separator.text}', expected: ',' or 'end of string'`);
        }
        if (!isName() && !is('!')) throw new SyntaxError(`found '${peek().text}', expected: identifier after ','`);
      }
      return requirements;
    },
  };
}

function check(path: string, value: string, errors: readonly string[]): void {
  if (errors.length > 0) throw new SyntaxError(formatFieldError(invalidValue(path, value, errors.join('; '))));
}

function checked(key: string, values: readonly string[]): readonly string[] {
  for (const value of values) check(`<nil>[${key}]`, value, labelValueErrors(value));
  return values;
}

function among(key: string, operator: 'in' | 'notin', values: readonly string[]): LabelSelector {
  return (labels) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    const found = value !== undefined && values.includes(value);
    return found === (operator === 'in');
  };
}

function compares(key: string, operator: '>' | '<', bound: string): LabelSelector {
  if (!/^[+-]?\d+$/.test(bound)) {
    throw new SyntaxError(
      formatFieldError(invalidValue('<nil>[0]', bound, "for 'Gt', 'Lt' operators, the value must be an integer")),
    );
  }
  return (labels) => {
    const value = Object.hasOwn(labels, key) ? (labels[key] ?? '') : '';
    if (!/^[+-]?\d+$/.test(value)) return false;
    return operator === '>' ? BigInt(value) > BigInt(bound) : BigInt(value) < BigInt(bound);
  };
}
