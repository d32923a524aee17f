//! Why a template can't be used, and why arguments can't be put into one. No text repeats a value.

/// Why a template was refused when it was loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A character that only a shell would understand.
    #[error(
        "`{}` means nothing here, since no shell reads the template; put it into single quotes if the program itself needs it (E_TEMPLATE_SHELL_META)",
        .0.escape_debug()
    )]
    ShellMeta(char),
    /// An invisible character, or one that changes how the rest is shown.
    #[error(
        "`{}` hides something from people who read the template; remove it (E_TEMPLATE_HIDDEN)",
        .0.escape_unicode()
    )]
    Hidden(char),
    /// A variable in front of the program, as a shell has it.
    #[error(
        "a variable can't be set in front of the program; write it into `env` of the tool (E_TEMPLATE_SHELL_META)"
    )]
    Assignment,
    /// A quote without its partner.
    #[error("a quote is not closed (E_TEMPLATE_QUOTE)")]
    Quote,
    /// There is no program, or not a fixed one.
    #[error("{0} (E_TEMPLATE_PROGRAM)")]
    Program(String),
    /// The program would run what its arguments say.
    #[error("{0} (E_TEMPLATE_INTERPRETER)")]
    Interpreter(String),
    /// Not a placeholder.
    #[error("{0}; write `{{{{name}}}}` (E_TEMPLATE_PLACEHOLDER)")]
    Placeholder(&'static str),
    /// A list in the wrong place, or something else in the place of a list.
    #[error("{0} (E_TEMPLATE_SPLAT)")]
    Splat(String),
    /// A parameter that is missing or can't be written as an argument.
    #[error("parameter `{name}`: {reason} (E_TEMPLATE_PARAMETER)")]
    Parameter {
        /// The parameter.
        name: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Free text inside a word.
    #[error(
        "parameter `{0}` is only a part of a word; give it a `pattern` or an `enum`, or let it stand alone (E_TEMPLATE_PATTERN)"
    )]
    Open(String),
    /// Free text for a program without a sandbox.
    #[error(
        "parameter `{0}` may be any text, and without a sandbox nothing limits what the program does with it; give it a `pattern` or an `enum`, or give the tool a sandbox (E_TEMPLATE_PATTERN)"
    )]
    Unconfined(String),
    /// Parameters that the template does not use.
    #[error(
        "the template does not use {0}; add a placeholder, or remove the parameter (E_TEMPLATE_UNUSED)"
    )]
    Unused(String),
    /// The parameters are not the schema of an object.
    #[error("`parameters`: {0} (E_TEMPLATE_SCHEMA)")]
    Parameters(String),
}

impl TemplateError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ShellMeta(_) | Self::Assignment => "E_TEMPLATE_SHELL_META",
            Self::Hidden(_) => "E_TEMPLATE_HIDDEN",
            Self::Quote => "E_TEMPLATE_QUOTE",
            Self::Program(_) => "E_TEMPLATE_PROGRAM",
            Self::Interpreter(_) => "E_TEMPLATE_INTERPRETER",
            Self::Placeholder(_) => "E_TEMPLATE_PLACEHOLDER",
            Self::Splat(_) => "E_TEMPLATE_SPLAT",
            Self::Parameter { .. } => "E_TEMPLATE_PARAMETER",
            Self::Open(_) | Self::Unconfined(_) => "E_TEMPLATE_PATTERN",
            Self::Unused(_) => "E_TEMPLATE_UNUSED",
            Self::Parameters(_) => "E_TEMPLATE_SCHEMA",
        }
    }

    pub(super) fn parameter(name: &str, reason: impl Into<String>) -> Self {
        Self::Parameter { name: name.escape_debug().to_string(), reason: reason.into() }
    }
}

/// Why arguments were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("argument `{argument}`: {fault} ({})", .fault.code())]
pub struct FillError {
    /// The argument; empty where it is about all of them.
    pub argument: String,
    /// What is wrong with it.
    pub fault: Fault,
}

impl FillError {
    pub(super) fn new(argument: &str, fault: Fault) -> Self {
        let argument = argument.chars().take(64).collect::<String>();
        Self { argument: argument.escape_debug().to_string(), fault }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.fault.code()
    }
}

/// What can be wrong with an argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Of another type.
    #[error("must be {0}")]
    Type(&'static str),
    /// Required, and not there.
    #[error("is required")]
    Missing,
    /// A number beyond its bounds.
    #[error("is out of range; {0}")]
    Range(String),
    /// Not a parameter of this tool.
    #[error("is not known; leave it out")]
    Unknown,
    /// Breaks the schema.
    #[error("does not fit: {0}")]
    Schema(String),
    /// Holds a NUL character.
    #[error("holds a NUL character, which can't be passed to a program")]
    Nul,
    /// Holds a control character.
    #[error(
        "holds a control character; line breaks and tabs need `\"x-multiline\": true` in the tool's parameters"
    )]
    Control,
    /// Empty.
    #[error(
        "is empty; leave the argument out if it is optional, or allow it with `\"minLength\": 0` in the tool's parameters"
    )]
    Empty,
    /// Longer than the system allows.
    #[error("is too long to be passed to a program")]
    TooLong,
    /// Would be read as an option.
    #[error("begins with `-`, which the program would take for an option; give another value")]
    Option,
}

impl Fault {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Type(_) => "E_TYPE",
            Self::Missing => "E_MISSING",
            Self::Range(_) => "E_RANGE",
            Self::Unknown => "E_UNKNOWN_ARG",
            Self::Schema(_) => "E_SCHEMA",
            Self::Nul => "E_NUL",
            Self::Control => "E_CONTROL",
            Self::Empty => "E_EMPTY",
            Self::TooLong => "E_TOO_LONG",
            Self::Option => "E_OPTION",
        }
    }
}
