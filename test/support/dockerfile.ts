/** Parses Dockerfiles. */

export interface Instruction {
  /** The instruction in upper case, such as `COPY`. */
  readonly name: string;
  /** The values of `--flag=value`. */
  readonly flags: ReadonlyMap<string, string>;
  readonly text: string;
}

export interface Stage {
  /** The image in `FROM`, with unresolved arguments. */
  readonly image: string;
  readonly as: string | undefined;
  readonly from: Instruction;
  readonly instructions: readonly Instruction[];
}

interface Dockerfile {
  /** The `ARG` instructions before the first stage, with their defaults. */
  readonly args: ReadonlyMap<string, string>;
  readonly stages: readonly Stage[];
}

/** Parses the stages and instructions of a Dockerfile, including continued lines and comments. */
export function readDockerfile(text: string): Dockerfile {
  const lines = text.split('\n').filter((line) => !/^\s*(#|$)/.test(line));
  const instructions = lines
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map(readInstruction);
  const starts = instructions.flatMap(({ name }, index) => (name === 'FROM' ? [index] : []));
  return {
    args: new Map(instructions.slice(0, starts[0]).map((one) => readArg(one))),
    stages: starts.map((start, index) => readStage(instructions.slice(start, starts[index + 1]))),
  };
}

function readInstruction(line: string): Instruction {
  const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? [];
  const flags = new Map<string, string>();
  const text = rest.replace(/^(?:--[\w-]+=\S+\s+)+/, (all) => {
    for (const [, flag = '', value = ''] of all.matchAll(/--([\w-]+)=(\S+)/g)) flags.set(flag, value);
    return '';
  });
  return { name: name.toUpperCase(), flags, text };
}

export function readArg({ text }: Instruction): [name: string, fallback: string] {
  const [, name = '', fallback = ''] = /^(\w+)(?:=(.*))?$/.exec(text) ?? [];
  return [name, fallback];
}

function readStage([from, ...instructions]: readonly Instruction[]): Stage {
  if (!from) throw new Error('a stage begins with FROM');
  const [, image = '', as] = /^(\S+)(?: AS (\S+))?$/i.exec(from.text) ?? [];
  return { image, as, from, instructions };
}

/** Returns the words of an instruction in exec form, or `undefined` for shell form. */
export function parseExecForm({ text }: Instruction): readonly string[] | undefined {
  return text.startsWith('[') ? (JSON.parse(text) as string[]) : undefined;
}

export function parseCopy({ text }: Instruction): { readonly sources: readonly string[]; readonly target: string } {
  const words = text.split(/\s+/);
  return { sources: words.slice(0, -1), target: words.at(-1) ?? '' };
}

export function instructions(name: string, { instructions: all }: Stage): readonly Instruction[] {
  return all.filter((one) => one.name === name);
}
